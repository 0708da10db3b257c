//go:build linux

package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// What the node is called, and its addresses.
const (
	nodeName    = "node1"
	nodeAddress = "10.99.0.1"
)

// isolate mounts what containers need, and gives the node a network. From then on the node writes
// only below dir, /run and its own cgroups.
func isolate(dir string) error {
	mine, err := hierarchies()
	if err != nil {
		return err
	}
	if err := errors.Join(
		unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""),
		unix.Mount("proc", "/proc", "proc", 0, ""),
		// With all that is mounted below it, or entries of the machine's cgroups stand first.
		unix.Unmount("/sys", unix.MNT_DETACH),
		unix.Mount("sysfs", "/sys", "sysfs", 0, ""),
		unix.Mount("tmpfs", cgroupRoot, "tmpfs", 0, "mode=755"),
	); err != nil {
		return err
	}
	for controllers := range mine {
		at := filepath.Join(cgroupRoot, strings.TrimPrefix(controllers, "name="))
		options := controllers
		if strings.HasPrefix(controllers, "name=") {
			options = "none," + controllers
		}
		if err := os.Mkdir(at, 0o755); err != nil {
			return err
		}
		if err := unix.Mount("cgroup", at, "cgroup", 0, options); err != nil {
			return fmt.Errorf("mount cgroup %s: %w", controllers, err)
		}
	}
	if err := errors.Join(showSysctls(dir), ownFolders(dir), unix.Mount("", "/", "", unix.MS_REC|unix.MS_SHARED, "")); err != nil {
		return err
	}
	return errors.Join(unix.Sethostname([]byte(nodeName)), network())
}

// showSysctls shows kubelet as set what it would otherwise set for the whole machine.
func showSysctls(dir string) error {
	for name, value := range map[string]string{
		"vm/overcommit_memory": "1", "vm/panic_on_oom": "0", "kernel/panic": "10", "kernel/panic_on_oops": "1",
		"kernel/keys/root_maxkeys": "1000000", "kernel/keys/root_maxbytes": "25000000",
	} {
		shown := filepath.Join(dir, "sysctl-"+strings.ReplaceAll(name, "/", "-"))
		if err := os.WriteFile(shown, []byte(value+"\n"), 0o600); err != nil {
			return err
		}
		if err := bind(shown, filepath.Join("/proc/sys", name)); err != nil {
			return err
		}
	}
	return nil
}

// ownFolders puts folders of the node over those that kubelet, containerd and CNI write to.
func ownFolders(dir string) error {
	if err := unix.Mount("tmpfs", "/run", "tmpfs", 0, "mode=755"); err != nil {
		return err
	}
	for _, at := range []string{"/var/lib", "/var/log"} {
		own := filepath.Join(dir, at)
		if err := os.MkdirAll(own, 0o755); err != nil {
			return err
		}
		if err := bind(own, at); err != nil {
			return err
		}
	}
	return os.MkdirAll("/run/lock", 0o755)
}

func bind(from, to string) error {
	if err := unix.Mount(from, to, "", unix.MS_BIND, ""); err != nil {
		return fmt.Errorf("bind %s over %s: %w", from, to, err)
	}
	return nil
}

// network makes an interface that leads nowhere, which kubelet wants a default route over.
func network() error {
	for _, args := range []string{
		"link set lo up",
		"link add n0 type veth peer name n1",
		"addr add " + nodeAddress + "/24 dev n0",
		"link set n0 up",
		"link set n1 up",
		"route add default via 10.99.0.254 dev n0",
	} {
		if out, err := exec.Command("ip", strings.Fields(args)...).CombinedOutput(); err != nil {
			return fmt.Errorf("ip %s: %w: %s", args, err, out)
		}
	}
	return os.WriteFile("/proc/sys/net/ipv4/ip_forward", []byte("1"), 0o600)
}
