package images

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// Config says what to build.
type Config struct {
	// Ko is the program ko, and Out the folder for the tarballs and lists of contents.
	Ko, Out string
	// Release is the version of the images; empty is devel.
	Release string
	// Repository is what the images' names begin with.
	Repository string
	// Arch is the architecture to build for; empty is all.
	Arch string
	// CAFile has the CA certificates that the images trust, PEM.
	CAFile string
}

const (
	// koTimeout is for one architecture: three programs, compiled from the start.
	koTimeout = 30 * time.Minute
	// lockPoll is how often a build that waits for another looks again.
	lockPoll = 200 * time.Millisecond
	// maxCAs bounds the bundle of CA certificates in bytes.
	maxCAs = 4 << 20
	// devel is the version of images that are no release; the charts' default.
	devel = "devel"
)

// programs get an image each.
func programs() []string { return []string{"oscar-controlplane", "oscar-syncer", "oscarfed"} }

var tag = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9._-]{0,127}$`)

// Build writes a tarball for each architecture, and says which.
func Build(ctx context.Context, cfg Config, stdout, stderr io.Writer) error {
	version := cmp.Or(cfg.Release, devel)
	if !tag.MatchString(version) {
		return fmt.Errorf("release %q cannot be the tag of an image", version)
	}
	if cfg.Arch != "" && !slices.Contains(architectures(), cfg.Arch) {
		return fmt.Errorf("there are no images for %q", cfg.Arch)
	}
	cas, err := readCAs(cfg.CAFile)
	if err != nil {
		return fmt.Errorf("CA certificates: %w", err)
	}
	base, err := baseImage(cas)
	if err != nil {
		return fmt.Errorf("base image: %w", err)
	}
	commit, when, changes := Source(ctx)
	revision := cmp.Or(commit, "unknown")
	if changes != "" {
		revision += "-dirty"
	}
	if err := os.MkdirAll(cfg.Out, 0o750); err != nil {
		return err
	}
	unlock, err := lock(ctx, cfg.Out)
	if err != nil {
		return err
	}
	defer unlock()
	address, stop, err := serve(ctx, registry(base))
	if err != nil {
		return fmt.Errorf("registry of the base image: %w", err)
	}
	defer stop()
	for _, arch := range architectures() {
		if cfg.Arch != "" && cfg.Arch != arch {
			continue
		}
		tarball := filepath.Join(cfg.Out, fmt.Sprintf("oscarfed-%s-linux-%s.tar", version, arch))
		// ko leaves half a file behind when it is stopped.
		partial := tarball + ".partial"
		args := []string{
			"build", "--push=false", "--base-import-paths", "--tarball", partial, "--tags", version, "--platform", "linux/" + arch,
			"--image-user", fmt.Sprintf("%d:%d", user, user),
			"--image-label", "org.opencontainers.image.version=" + version,
			"--image-label", "org.opencontainers.image.revision=" + revision,
			"--image-label", "org.opencontainers.image.source=https://github.com/oscarfed/oscarfed",
			"--image-label", "org.opencontainers.image.licenses=Apache-2.0",
			"--sbom", "spdx", "--sbom-dir", filepath.Join(cfg.Out, "sbom-"+arch),
		}
		if cfg.Release != "" {
			args = append(args, "--ldflags", "-X github.com/oscarfed/oscarfed/internal/version.release="+cfg.Release)
		}
		for _, p := range programs() {
			args = append(args, "./cmd/"+p)
		}
		if err := ko(ctx, cfg.Ko, args, stderr,
			"GOFLAGS="+os.Getenv("GOFLAGS")+" -buildvcs="+strconv.FormatBool(commit != ""),
			"KO_DOCKER_REPO="+cfg.Repository, "KO_DEFAULTBASEIMAGE="+registryName+"/"+repositoryName+"@"+base.root, "SOURCE_DATE_EPOCH="+strconv.FormatInt(when.Unix(), 10),
			// Only plain HTTP goes to our registry; Go modules come by HTTPS.
			"HTTP_PROXY=http://"+address,
		); err != nil {
			return errors.Join(fmt.Errorf("%s: %w", arch, err), os.RemoveAll(partial))
		}
		if err := os.Rename(partial, tarball); err != nil {
			return err
		}
		fmt.Fprintln(stdout, tarball)
	}
	return nil
}

// lock waits until no other build writes to the folder. The lock goes with the process.
func lock(ctx context.Context, dir string) (unlock func(), err error) {
	f, err := os.OpenFile(filepath.Join(dir, ".lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	for {
		err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if err == nil {
			return func() { f.Close() }, nil //nolint:errcheck // nothing was written
		}
		if !errors.Is(err, syscall.EWOULDBLOCK) {
			return nil, errors.Join(fmt.Errorf("lock %s: %w", f.Name(), err), f.Close())
		}
		select {
		case <-time.After(lockPoll):
		case <-ctx.Done():
			return nil, errors.Join(fmt.Errorf("another build writes to %s: %w", dir, ctx.Err()), f.Close())
		}
	}
}

func ko(ctx context.Context, program string, args []string, stderr io.Writer, env ...string) error {
	ctx, cancel := context.WithTimeout(ctx, koTimeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, program, args...) //nolint:gosec // what the caller of this tool names is run
	cmd.Env = append(os.Environ(), env...)
	cmd.Stdout, cmd.Stderr = stderr, stderr
	return cmd.Run()
}

func readCAs(path string) ([]byte, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if info.Size() > maxCAs {
		return nil, fmt.Errorf("%s is larger than %d bytes", path, maxCAs)
	}
	return os.ReadFile(path)
}

// Source is what is built: the commit and its time, and what is changed in the working copy. Outside of a
// repository there is no commit, and its time is the beginning of time.
func Source(ctx context.Context) (commit string, when time.Time, changes string) {
	commit, err := git(ctx, "rev-parse", "HEAD")
	seconds, timeErr := git(ctx, "log", "-1", "--format=%ct")
	changes, statusErr := git(ctx, "status", "--porcelain")
	n, parseErr := strconv.ParseInt(seconds, 10, 64)
	if errors.Join(err, timeErr, statusErr, parseErr) != nil {
		return "", time.Unix(0, 0), ""
	}
	return commit, time.Unix(n, 0).UTC(), changes
}

func git(ctx context.Context, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	out, err := exec.CommandContext(ctx, "git", args...).Output() //nolint:gosec // the arguments are in this file
	return strings.TrimSpace(string(out)), err
}

// serve serves on a free port of loopback until stop is called.
func serve(ctx context.Context, h http.Handler) (address string, stop func(), err error) {
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return "", nil, err
	}
	server := &http.Server{
		Handler: h, ReadTimeout: 10 * time.Second, WriteTimeout: time.Minute, IdleTimeout: time.Minute, MaxHeaderBytes: 16 << 10,
		BaseContext: func(net.Listener) context.Context { return ctx },
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		server.Serve(l) //nolint:errcheck // it ends when it is closed
	}()
	return l.Addr().String(), func() {
		server.Close() //nolint:errcheck // the build has read everything
		<-done
	}, nil
}
