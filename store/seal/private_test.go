//go:build unix

package seal_test

import (
	"io/fs"
	"syscall"
	"testing"
	"time"

	"github.com/oscarfed/oscarfed/store/seal"
)

// file is what Stat answers of a file of this mode and owner.
type file struct {
	mode  fs.FileMode
	owner uint32
}

func (f file) Name() string       { return "identity.age" }
func (f file) Size() int64        { return 1 }
func (f file) Mode() fs.FileMode  { return f.mode }
func (f file) ModTime() time.Time { return time.Time{} }
func (f file) IsDir() bool        { return f.mode.IsDir() }
func (f file) Sys() any           { return &syscall.Stat_t{Uid: f.owner} }

// Kubernetes mounts a Secret as root:fsGroup 0440 for a container that does not run as
// root: nothing more private can be had there.
func TestAKeyInAMountedSecretIsPrivate(t *testing.T) {
	const root, pod, other = 0, 65532, 1000
	for _, c := range []struct {
		name string
		file file
		euid int
		want bool
	}{
		{"its owner alone", file{0o600, pod}, pod, true},
		{"its owner alone, read by root", file{0o600, pod}, root, true},
		{"a mounted Secret", file{0o440, root}, pod, true},
		{"a file of root for a group", file{0o640, root}, pod, true},
		{"the same, read by root", file{0o640, root}, root, false},
		{"a group that may write", file{0o660, root}, pod, false},
		{"everybody", file{0o444, root}, pod, false},
		{"its own, for a group", file{0o640, pod}, pod, false},
		{"somebody's, for a group", file{0o640, other}, pod, false},
		{"a folder", file{fs.ModeDir | 0o700, pod}, pod, false},
	} {
		if got := seal.Private(c.file, c.euid); got != c.want {
			t.Errorf("%s: private is %v", c.name, got)
		}
	}
}
