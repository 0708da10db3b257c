//go:build linux

package machines

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// Home is where programs of a machine with a root begin; programs of the test are in Programs.
const (
	Home     = "/root"
	Programs = "/opt/bin"
)

// Root makes the disk the root of the file system of the programs that are started from now on. The folders of programs
// and libraries are those of this machine, and cannot be changed; all else is the machine's own. The test's binary
// is in Programs under each of these names.
func (m *Machine) Root(names ...string) {
	m.t.Helper()
	for _, folder := range []string{"dev", "etc", "tmp", "var/lib", Home, Programs} {
		m.net.must("make a folder", os.MkdirAll(filepath.Join(m.disk, folder), 0o755))
	}
	m.net.must("open /tmp", os.Chmod(filepath.Join(m.disk, "tmp"), 0o777|os.ModeSticky))
	for _, path := range []string{"/usr", "/bin", "/sbin", "/lib", "/lib64", "/proc"} {
		m.show(path)
	}
	for _, device := range []string{"/dev/null", "/dev/urandom", "/dev/zero"} {
		m.bind(device, device)
	}
	m.net.must("name the descriptors", os.Symlink("/proc/self/fd", filepath.Join(m.disk, "dev/fd")))
	m.root = true
	self, err := os.Executable()
	m.net.must("find the test's binary", err)
	for _, name := range names {
		m.Program(name, self)
	}
}

// Program puts a program of this machine into Programs.
func (m *Machine) Program(name, file string) {
	m.t.Helper()
	m.bind(file, filepath.Join(Programs, name))
}

// show has a folder of this machine, or what it is a link to, at the same place below the root.
func (m *Machine) show(path string) {
	m.t.Helper()
	at := filepath.Join(m.disk, path)
	info, err := os.Lstat(path)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return
	case err == nil && info.Mode()&os.ModeSymlink != 0:
		var to string
		if to, err = os.Readlink(path); err == nil {
			err = os.Symlink(to, at)
		}
		m.net.must("link "+path, err)
		return
	}
	m.net.must("find "+path, err)
	m.net.must("make "+path, os.Mkdir(at, 0o755))
	m.net.must("mount "+path, unix.Mount(path, at, "", unix.MS_BIND|unix.MS_REC, ""))
	// What removes the machine's files must not reach those of this one.
	m.net.must("protect "+path, unix.MountSetattr(unix.AT_FDCWD, at, unix.AT_RECURSIVE, &unix.MountAttr{Attr_set: unix.MOUNT_ATTR_RDONLY}))
}

// bind has a file of this machine at a place below the root.
func (m *Machine) bind(file, place string) {
	m.t.Helper()
	at := filepath.Join(m.disk, place)
	m.net.must("make "+place, os.WriteFile(at, nil, 0o600))
	m.net.must("mount "+place, unix.Mount(file, at, "", unix.MS_BIND, ""))
}

// Users says whether there are other users than root: a user namespace of another user than root has one.
func Users(id int) bool {
	data, err := os.ReadFile("/proc/self/uid_map")
	if err != nil {
		return false
	}
	var first, outside, count int
	if _, err := fmt.Fscan(strings.NewReader(string(data)), &first, &outside, &count); err != nil {
		return false
	}
	return first <= id && id-first < count
}
