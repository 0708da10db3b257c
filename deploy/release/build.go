package main

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/oscarfed/oscarfed/deploy/images"
)

// config says what to build.
type config struct {
	version, out, helm string
	imagesConfig       images.Config
}

// stepTimeout bounds each program that is run.
const stepTimeout = 45 * time.Minute

var versions = regexp.MustCompile(`^v(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)(-[0-9A-Za-z.-]+)?$`)

// platform is what programs are built for.
type platform struct {
	os, arch string
	// commands are those that run there.
	commands []string
}

func (p platform) String() string { return p.os + "-" + p.arch }

// platforms are those of an archive each. The daemons run on Linux, the command on people's machines, too.
func platforms() []platform {
	daemons := []string{"oscar-controlplane", "oscar-syncer", "oscarfed"}
	return []platform{
		{"linux", "amd64", daemons},
		{"linux", "arm64", daemons},
		{"darwin", "amd64", []string{"oscarfed"}},
		{"darwin", "arm64", []string{"oscarfed"}},
	}
}

// release is one release that is being built.
type release struct {
	config
	// commit and when are what is built: everything in it has that time.
	commit string
	when   time.Time
	// work is a folder for what is only needed meanwhile.
	work           string
	stdout, stderr io.Writer
}

// build makes everything in a folder beside the last one, which it then replaces.
func build(ctx context.Context, cfg config, stdout, stderr io.Writer) (err error) {
	if !versions.MatchString(cfg.version) {
		return fmt.Errorf("-version %q is not of the form v1.2.3", cfg.version)
	}
	r := &release{config: cfg, stdout: stdout, stderr: stderr}
	var changes string
	if r.commit, r.when, changes = images.Source(ctx); r.commit == "" {
		return errors.New("a release is built from a git repository")
	}
	if changes != "" {
		return fmt.Errorf("there are changes that are not committed:\n%s", changes)
	}
	final := cfg.out
	if err := os.MkdirAll(filepath.Dir(final), 0o750); err != nil {
		return err
	}
	if r.out, err = os.MkdirTemp(filepath.Dir(final), ".release-*"); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(r.out)) }()
	if r.work, err = os.MkdirTemp("", "release-*"); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(r.work)) }()
	for _, step := range []func(context.Context) error{r.notes, r.archives, r.images, r.charts, r.sums} {
		if err := step(ctx); err != nil {
			return err
		}
	}
	if err := errors.Join(os.RemoveAll(final), os.Rename(r.out, final)); err != nil {
		return err
	}
	return os.Chmod(final, 0o755) //nolint:gosec // it is for everybody
}

// do runs a program, whose output is the caller's.
func (r *release) do(ctx context.Context, env []string, program string, args ...string) error {
	ctx, cancel := context.WithTimeout(ctx, stepTimeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, program, args...) //nolint:gosec // what the caller of this tool names is run
	cmd.Env = append(os.Environ(), env...)
	cmd.Stdout, cmd.Stderr = r.stderr, r.stderr
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("%s %s: %w", program, args[0], err)
	}
	return nil
}

// archives builds the programs for each platform, and puts them into an archive with what people read
// first, and their list of contents beside it.
func (r *release) archives(ctx context.Context) error {
	for _, p := range platforms() {
		name := "oscarfed-" + r.version + "-" + p.String()
		dir := filepath.Join(r.work, p.String())
		for _, command := range p.commands {
			err := r.do(ctx, []string{"CGO_ENABLED=0", "GOOS=" + p.os, "GOARCH=" + p.arch, "GOFLAGS="},
				"go", "build", "-trimpath", "-buildvcs=true", "-ldflags", "-s -w -X github.com/oscarfed/oscarfed/internal/version.release="+r.version,
				"-o", filepath.Join(dir, command), "./cmd/"+command)
			if err != nil {
				return err
			}
		}
		var files []entry
		var binaries []string
		for _, command := range p.commands {
			path := filepath.Join(dir, command)
			binaries = append(binaries, path)
			files = append(files, entry{name: name + "/" + command, path: path, mode: 0o755})
		}
		for _, text := range []string{"CHANGELOG.md", "LICENSE", "README.md"} {
			files = append(files, entry{name: name + "/" + text, path: text, mode: 0o644})
		}
		if err := writeArchive(filepath.Join(r.out, name+".tar.gz"), files, r.when); err != nil {
			return err
		}
		if err := r.contents(name, binaries); err != nil {
			return err
		}
		fmt.Fprintln(r.stdout, name+".tar.gz")
	}
	return nil
}

// images builds them, and writes each tarball anew: ko's have no order.
func (r *release) images(ctx context.Context) error {
	dir := filepath.Join(r.work, "images")
	cfg := r.imagesConfig
	cfg.Out, cfg.Release = dir, r.version
	if err := images.Build(ctx, cfg, r.stderr, r.stderr); err != nil {
		return err
	}
	tarballs, err := filepath.Glob(filepath.Join(dir, "*.tar"))
	if err != nil {
		return err
	}
	for _, tarball := range tarballs {
		name := "images-" + filepath.Base(tarball) + ".gz"
		if err := sortImages(filepath.Join(r.out, name), tarball, r.when); err != nil {
			return fmt.Errorf("%s: %w", tarball, err)
		}
		fmt.Fprintln(r.stdout, name)
	}
	lists, err := filepath.Glob(filepath.Join(dir, "sbom-*", "*"))
	if err != nil {
		return err
	}
	for _, list := range lists {
		if err := copyFile(filepath.Join(r.out, "image-"+filepath.Base(list)), list); err != nil {
			return err
		}
	}
	return nil
}

// charts packages them for this version of the images.
func (r *release) charts(ctx context.Context) error {
	dir := filepath.Join(r.work, "charts")
	for _, chart := range []string{"oscarfed", "oscar-syncer"} {
		number := strings.TrimPrefix(r.version, "v")
		if err := r.do(ctx, nil, r.helm, "package", "deploy/helm/"+chart, "--destination", dir, "--version", number, "--app-version", r.version); err != nil {
			return err
		}
		name := chart + "-" + number + ".tgz"
		if err := rewriteArchive(filepath.Join(r.out, "chart-"+name), filepath.Join(dir, name), r.when); err != nil {
			return err
		}
		fmt.Fprintln(r.stdout, "chart-"+name)
	}
	return nil
}

// sums writes SHA256SUMS, as `sha256sum --check` reads it.
func (r *release) sums(context.Context) error {
	entries, err := os.ReadDir(r.out)
	if err != nil {
		return err
	}
	var out strings.Builder
	for _, e := range entries {
		sum, err := sumOf(filepath.Join(r.out, e.Name()))
		if err != nil {
			return err
		}
		fmt.Fprintf(&out, "%s  %s\n", sum, e.Name())
	}
	return os.WriteFile(filepath.Join(r.out, "SHA256SUMS"), []byte(out.String()), 0o644) //nolint:gosec // it is for everybody
}

func sumOf(path string) (sum string, err error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return "", err
	}
	return fmt.Sprintf("%x", h.Sum(nil)), nil
}

// notes writes what CHANGELOG.md says of the version. Before a release it has no section of its own: then
// what is not released yet is given.
func (r *release) notes(context.Context) error {
	data, err := os.ReadFile("CHANGELOG.md")
	if err != nil {
		return err
	}
	number := strings.TrimPrefix(r.version, "v")
	section, ok := sectionOf(string(data), number)
	if !ok && strings.Contains(number, "-") {
		section, ok = sectionOf(string(data), "Unreleased")
	}
	if !ok {
		return fmt.Errorf("CHANGELOG.md has no section %q: give what is unreleased this name and a date", number)
	}
	return os.WriteFile(filepath.Join(r.out, "NOTES.md"), []byte(section), 0o644) //nolint:gosec // it is for everybody
}

// sectionOf is the section of a changelog whose heading begins with the word.
func sectionOf(changelog, word string) (string, bool) {
	lines := strings.SplitAfter(changelog, "\n")
	heading := func(line string) bool { return strings.HasPrefix(line, "## ") }
	begin := slices.IndexFunc(lines, func(line string) bool {
		fields := strings.Fields(line)
		return heading(line) && len(fields) > 1 && strings.Trim(fields[1], "[]") == word
	})
	if begin < 0 {
		return "", false
	}
	end := slices.IndexFunc(lines[begin+1:], heading)
	if end < 0 {
		end = len(lines) - begin - 1
	}
	return strings.Join(lines[begin:begin+1+end], ""), true
}

func copyFile(to, from string) error {
	data, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	return os.WriteFile(to, data, 0o644) //nolint:gosec // it is for everybody
}
