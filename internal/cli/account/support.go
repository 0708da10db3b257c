package account

import (
	"archive/tar"
	"cmp"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/oscarfed/oscarfed/internal/cli/command"
	"github.com/oscarfed/oscarfed/internal/cli/exit"
	"github.com/oscarfed/oscarfed/internal/cli/output"
	"github.com/oscarfed/oscarfed/internal/version"
)

// maxLogFile is how many bytes of each --log-file are put in, the last ones.
const maxLogFile = 16 << 20

type supportCmd struct {
	File    string
	Logs    []string
	Timeout time.Duration
}

// SupportBundle is `oscarfed support-bundle`.
func SupportBundle(a *command.App) *cobra.Command {
	var c supportCmd
	cmd := &cobra.Command{
		Use:   "support-bundle [FILE]",
		Short: "Collect what somebody needs who helps you",
		Long: "Collect what somebody needs who helps you: the checks of `oscarfed doctor`, and of the control plane that\n" +
			"answers its versions, metrics, last log lines and records. Definitions, scripts, events, tokens and secrets are\n" +
			"left out; names of services, clusters and people are in it. Only an administrator gets all of it. When the\n" +
			"control plane does not answer, the bundle has the rest and says why, and the status is that of the failure.\n" +
			"FILE is a new file, a tar archive with gzip (oscarfed-support-TIME.tar.gz).",
		Example: "  oscarfed support-bundle\n  journalctl -u oscar-syncer -n 10000 >syncer.log && oscarfed support-bundle --log-file syncer.log",
		RunE: func(cmd *cobra.Command, args []string) error {
			c.File = command.Argument(args, 0)
			return c.Run(cmd.Context(), a)
		},
	}
	f := command.FlagsOf(cmd)
	f.List(&c.Logs, "log-file", "FILE,...", "Logs to put in as they are, the last 16 MiB of each.")
	f.Timeout(&c.Timeout, 5*time.Minute, "How long it may take.")
	return cmd
}

// bundleFile is one file of a bundle.
type bundleFile struct {
	File  string `json:"file"`
	Bytes int    `json:"bytes"`
}

// bundle is being written.
type bundle struct {
	archive *tar.Writer
	now     time.Time
	files   []bundleFile
}

func (b *bundle) put(name string, data []byte) error {
	name = filepath.Base(name)
	if err := b.archive.WriteHeader(&tar.Header{Name: "oscarfed-support/" + name, Mode: 0o600, Size: int64(len(data)), ModTime: b.now}); err != nil {
		return err
	}
	b.files = append(b.files, bundleFile{name, len(data)})
	_, err := b.archive.Write(data)
	return err
}

func (b *bundle) json(name string, v any) error {
	data, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return err
	}
	return b.put(name, data)
}

func (c *supportCmd) Run(ctx context.Context, a *command.App) (err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, c.Timeout, exit.Errorf(exit.NotReachable, "it took longer than --timeout %s", c.Timeout))
	defer cancel()
	now := time.Now().UTC().Truncate(time.Second)
	name := cmp.Or(c.File, "oscarfed-support-"+now.Format("20060102T150405Z")+".tar.gz")
	file, err := os.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return exit.Usagef("%v", err)
	}
	packed := gzip.NewWriter(file)
	b := &bundle{archive: tar.NewWriter(packed), now: now}
	problem, err := c.collect(ctx, a, b)
	if err = errors.Join(err, b.archive.Close(), packed.Close(), file.Close()); err != nil {
		return errors.Join(err, os.Remove(name))
	}
	err = a.Unbounded().Print(b.files, func() *output.Table {
		t := output.NewTable("FILE", "BYTES")
		for _, f := range b.files {
			t.Row(f.File, strconv.Itoa(f.Bytes))
		}
		return t
	})
	a.Sayf("%s has names of services, clusters and people in it, and your --log-file as they are; secrets, scripts and events are left out", name)
	return errors.Join(err, problem)
}

// collect fills a bundle. problem is why the control plane gave nothing, or not all.
func (c *supportCmd) collect(ctx context.Context, a *command.App, b *bundle) (problem, err error) {
	build := version.Get()
	err = b.json("oscarfed.json", map[string]string{
		"version": build.Version, "commit": build.Commit, "go": build.Go, "arch": build.Arch, "at": b.now.Format(time.RFC3339),
	})
	for i, name := range c.Logs {
		data, logErr := lastOf(name)
		if logErr != nil {
			return nil, exit.Usagef("%v", logErr)
		}
		err = errors.Join(err, b.put(fmt.Sprintf("log-%d-%s", i+1, filepath.Base(name)), data))
	}
	d := &doctor{app: a}
	problem = d.examine(ctx)
	if len(d.checks) > 0 {
		err = errors.Join(err, b.json("doctor.json", d.checks))
	}
	if api, dialErr := a.Dial(); dialErr == nil {
		got := api.Support(ctx, func(name string, content io.Reader) error {
			data, readErr := io.ReadAll(content)
			if readErr != nil {
				return readErr
			}
			err = errors.Join(err, b.put(name, data))
			return err
		})
		problem = cmp.Or(got, problem)
	}
	if problem != nil && err == nil {
		err = b.put("problem.txt", []byte(problem.Error()+"\n"))
	}
	return problem, err
}

// lastOf reads the end of a file.
func lastOf(name string) (data []byte, err error) {
	file, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	info, err := file.Stat()
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is no regular file", name)
	}
	if info.Size() > maxLogFile {
		if _, err := file.Seek(-maxLogFile, io.SeekEnd); err != nil {
			return nil, err
		}
	}
	return io.ReadAll(io.LimitReader(file, maxLogFile))
}
