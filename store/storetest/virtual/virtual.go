package virtual

import (
	"net"
	"os"
	"path/filepath"
	"testing"
	_ "unsafe" // for go:linkname

	"go.etcd.io/etcd/server/v3/storage/wal"

	"github.com/oscarfed/oscarfed/store/embedded"
)

// memoryDisk is a folder in memory of most Linux machines.
const memoryDisk = "/dev/shm"

// watchContextDone is etcd's channel of a context that never ends. It is made when the program
// starts, outside of every bubble: a goroutine that waits for it keeps a bubble's time from going on. A nil
// channel says the same to package context, and nothing waits for it.
//
//go:linkname watchContextDone go.etcd.io/etcd/client/v3.valCtxCh
var watchContextDone chan struct{}

// init makes etcd's packages fit for bubbles, before any client or server of the program reads these:
// a test of real time may use them beside those of virtual time.
func init() { //nolint:gochecknoinits // etcd's variables have no lock
	watchContextDone = nil
	// etcd writes a segment of its log at once, and the next one ahead: 128 MB for a server that
	// lives for a moment.
	wal.SegmentSizeBytes = 1 << 20
}

// Start starts a server on a listener, inside a bubble. The folder and the logger are filled in
// when they are not given. The end of the test closes it.
func Start(t testing.TB, on net.Listener, cfg embedded.Config) *embedded.Server {
	t.Helper()
	return New(t, on, cfg).Server
}

// Dir is a data directory in memory, if there is such a disk.
func Dir(t testing.TB) string {
	t.Helper()
	if _, err := os.Stat(memoryDisk); err != nil {
		return filepath.Join(t.TempDir(), "etcd")
	}
	dir, err := os.MkdirTemp(memoryDisk, "oscarfed-etcd-") //nolint:usetesting // t.TempDir is on the disk
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Errorf("remove etcd's data: %v", err)
		}
	})
	return filepath.Join(dir, "etcd")
}
