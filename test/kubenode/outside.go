//go:build linux

package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

const (
	cgroupRoot = "/sys/fs/cgroup"
	// endLimit is how long the kernel may take to end a node's processes and to let its cgroups go.
	endLimit = time.Minute
	endPoll  = 100 * time.Millisecond
)

// outside makes a folder and cgroup folders, starts this program as the first process of new
// namespaces, waits until that ends, and removes everything; also what others left who were killed.
func outside(ctx context.Context, cfg *config, stdout io.Writer) (err error) {
	if err := cfg.check(); err != nil {
		return err
	}
	if err := sweep(os.TempDir()); err != nil {
		return err
	}
	owned, err := newFolder(os.TempDir())
	if err != nil {
		return err
	}
	cfg.dir = owned.Name()
	defer func() { err = errors.Join(err, os.RemoveAll(cfg.dir), owned.Close()) }()
	groups, err := newCgroups(filepath.Base(cfg.dir))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, groups.remove()) }()
	status, err := startInside(ctx, cfg, groups, stdout)
	if err != nil {
		return err
	}
	if refused, err := os.ReadFile(filepath.Join(cfg.dir, refusedFile)); err == nil {
		return fmt.Errorf("%w: %s", errRefused, refused)
	}
	if status != 0 {
		return &exitError{status}
	}
	return nil
}

// startInside runs the first process of the namespaces until it ends, and returns its status.
func startInside(ctx context.Context, cfg *config, groups cgroups, stdout io.Writer) (int, error) {
	// Linux kills the child when the thread that started it ends.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	args := []string{"-kube", cfg.kube, "-node", cfg.node, "-inside", cfg.dir}
	for name, program := range cfg.images {
		args = append(args, "-image", name+"="+program)
	}
	args = append(append(args, "--"), cfg.command...)
	cmd := exec.Command("/proc/self/exe", args...)
	cmd.Stdout, cmd.Stderr = stdout, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags: syscall.CLONE_NEWNS | syscall.CLONE_NEWPID | syscall.CLONE_NEWNET | syscall.CLONE_NEWUTS | syscall.CLONE_NEWIPC | syscall.CLONE_NEWCGROUP,
		Pdeathsig:  syscall.SIGKILL,
		Setpgid:    true, // Ctrl-C comes to this process alone, which ends the node in order
	}
	// The cgroup that a process is in when the namespace is made becomes the namespace's root.
	if err := groups.enter(); err != nil {
		return 0, errors.Join(err, groups.leave())
	}
	err := cmd.Start()
	if left := groups.leave(); left != nil {
		return 0, errors.Join(err, left)
	}
	if errors.Is(err, syscall.EPERM) {
		return 0, fmt.Errorf("%w: namespaces: %w", errRefused, err)
	}
	if err != nil {
		return 0, err
	}
	stop := context.AfterFunc(ctx, func() { cmd.Process.Signal(syscall.SIGTERM) }) //nolint:errcheck // it has ended
	defer stop()
	err = cmd.Wait()
	if _, ok := errors.AsType[*exec.ExitError](err); ok {
		return max(1, cmd.ProcessState.ExitCode()), nil
	}
	return 0, err
}

// cgroup is a folder of the node in one hierarchy of cgroup v1, and the one that this process is in.
type cgroup struct {
	controllers, own, before string
}

type cgroups []cgroup

// newCgroups makes a folder in each hierarchy.
func newCgroups(name string) (cgroups, error) {
	mine, err := hierarchies()
	if err != nil {
		return nil, err
	}
	if len(mine) == 0 {
		return nil, fmt.Errorf("%w: no cgroup v1 is mounted below %s", errRefused, cgroupRoot)
	}
	out := cgroupsOf(name, mine)
	for _, g := range out {
		if err := os.Mkdir(g.own, 0o755); err != nil {
			return nil, errors.Join(fmt.Errorf("%w: %w", errRefused, err), out.remove())
		}
		if g.controllers != "cpuset" {
			continue
		}
		// A new cpuset is empty, and no process may enter it.
		for _, file := range []string{"cpuset.cpus", "cpuset.mems"} {
			data, err := os.ReadFile(filepath.Join(filepath.Dir(g.own), file))
			if err == nil {
				err = os.WriteFile(filepath.Join(g.own, file), data, 0o600)
			}
			if err != nil {
				return nil, errors.Join(err, out.remove())
			}
		}
	}
	return out, nil
}

// cgroupsOf names a node's folder in each hierarchy.
func cgroupsOf(name string, mine map[string]string) (out cgroups) {
	for controllers, path := range mine {
		root := filepath.Join(cgroupRoot, strings.TrimPrefix(controllers, "name="))
		out = append(out, cgroup{controllers, filepath.Join(root, name), filepath.Join(root, path)})
	}
	return out
}

// hierarchies are those of cgroup v1 that are mounted at the usual place, each with the path of
// this process in it.
func hierarchies() (map[string]string, error) {
	f, err := os.Open("/proc/self/cgroup")
	if err != nil {
		return nil, err
	}
	defer f.Close() //nolint:errcheck // it was only read
	out := map[string]string{}
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		_, rest, _ := strings.Cut(lines.Text(), ":")
		controllers, path, _ := strings.Cut(rest, ":")
		mounted := filepath.Join(cgroupRoot, strings.TrimPrefix(controllers, "name="))
		if _, err := os.Stat(filepath.Join(mounted, "cgroup.procs")); controllers != "" && err == nil {
			out[controllers] = path
		}
	}
	return out, lines.Err()
}

// enter moves this process into the node's folders, leave back to where it was.
func (c cgroups) enter() error {
	return c.move(func(g cgroup) string { return g.own })
}

func (c cgroups) leave() error {
	return c.move(func(g cgroup) string { return g.before })
}

func (c cgroups) move(to func(cgroup) string) error {
	var errs []error
	for _, g := range c {
		errs = append(errs, os.WriteFile(filepath.Join(to(g), "cgroup.procs"), []byte(strconv.Itoa(os.Getpid())), 0o600))
	}
	return errors.Join(errs...)
}

// remove removes the folders with all that kubelet and runc made in them. The kernel may need a
// moment to take the last process out.
func (c cgroups) remove() error {
	deadline := time.Now().Add(endLimit)
	for {
		var errs []error
		for _, g := range c {
			errs = append(errs, removeTree(g.own))
		}
		err := errors.Join(errs...)
		if err == nil || time.Now().After(deadline) {
			return err
		}
		<-time.After(endPoll)
	}
}

// removeTree removes folders from the bottom up: the files of a cgroup cannot be removed.
func removeTree(root string) error {
	var folders []string
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() {
			folders = append(folders, path)
		}
		return err
	})
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	for _, path := range slices.Backward(folders) {
		err = errors.Join(err, os.Remove(path))
	}
	return err
}
