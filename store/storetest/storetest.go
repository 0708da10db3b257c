package storetest

import (
	"io"
	"log/slog"
	"path/filepath"
	"sync"
	"testing"

	"github.com/oscarfed/oscarfed/store"
	"github.com/oscarfed/oscarfed/store/embedded"
)

// New returns a store on an etcd server of its own.
func New(t testing.TB) *store.Store {
	t.Helper()
	return Open(t, store.Config{Endpoints: []string{Etcd(t)}})
}

// Etcd starts a server, without history compaction, and returns its endpoint.
func Etcd(t testing.TB) string {
	t.Helper()
	return Start(t, embedded.Config{}).Endpoint()
}

// Start starts a server with settings of the test. Folder, port and logger are
// filled in when they are not given; it is always fast and never syncs its disk.
func Start(t testing.TB, cfg embedded.Config) *embedded.Server {
	t.Helper()
	if cfg.Dir == "" {
		cfg.Dir = filepath.Join(t.TempDir(), "etcd")
	}
	if cfg.ListenClient == "" {
		cfg.ListenClient = "127.0.0.1:0"
	}
	if cfg.Logger == nil {
		cfg.Logger = Logger(t)
	}
	cfg.Fast, cfg.NoFsync = true, true
	server, err := embedded.Start(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Close)
	return server
}

// Open connects a store, which the end of the test closes.
func Open(t testing.TB, cfg store.Config) *store.Store {
	t.Helper()
	if cfg.Logger == nil {
		cfg.Logger = Logger(t)
	}
	s, err := store.Open(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	return Owned(t, s)
}

// Owned leaves a store to the end of the test, which closes it.
func Owned(t testing.TB, s *store.Store) *store.Store {
	t.Helper()
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Errorf("close the store: %v", err)
		}
	})
	return s
}

// Logger writes to the test's output until the test ends. What is logged later, by
// something that is just being stopped, goes nowhere.
func Logger(t testing.TB) *slog.Logger {
	out := &output{to: t.Output()}
	t.Cleanup(out.end)
	return slog.New(slog.NewTextHandler(out, &slog.HandlerOptions{Level: slog.LevelInfo}))
}

// output is a writer that can be ended.
type output struct {
	mu sync.Mutex
	to io.Writer
}

func (o *output) end() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.to = io.Discard
}

// Write implements io.Writer.
func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.to.Write(p)
}
