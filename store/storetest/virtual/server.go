package virtual

import (
	"context"
	"net"
	"testing"
	"time"

	"github.com/oscarfed/oscarfed/store/embedded"
	"github.com/oscarfed/oscarfed/store/storetest"
)

// Server is a server that a test can make fail. Its methods are for one goroutine.
type Server struct {
	// Server is the one that runs; another one after each start.
	*embedded.Server
	t   testing.TB
	cfg embedded.Config
	on  *lifetime
}

// New starts a server on a listener, inside a bubble, as Start does.
func New(t testing.TB, on net.Listener, cfg embedded.Config) *Server {
	t.Helper()
	if cfg.Dir == "" {
		cfg.Dir = Dir(t)
	}
	if cfg.Logger == nil {
		cfg.Logger = storetest.Logger(t)
	}
	s := &Server{t: t, cfg: cfg}
	s.Start(on)
	t.Cleanup(func() { s.Close() }) // the one that runs then
	return s
}

// Start starts a server that was closed or killed again, on what is on its disk. Clients find it
// where the listener's address is that of the one before.
func (s *Server) Start(on net.Listener) {
	s.t.Helper()
	s.on = newLifetime(on)
	cfg := s.cfg
	cfg.Listener, cfg.NoFsync = s.on, true
	server, err := embedded.Start(s.t.Context(), cfg)
	if err != nil {
		s.t.Fatal(err)
	}
	s.Server = server
}

// Kill ends the server without a word to its clients: their connections break, and what they asked
// for last may have happened or not. What was acknowledged is on the disk.
func (s *Server) Kill() {
	s.on.breakAll()
	s.Close()
}

// Rewind puts a server that was restored from a backup in the place of the one that runs, which
// is killed. Its revisions go on from those of the backup, or far above them all with bump.
func (s *Server) Rewind(on net.Listener, backup string, bump bool) embedded.Restored {
	s.t.Helper()
	s.Kill()
	// Beside the former one, which is removed after the last server has ended: etcd ends the process when its folder
	// is gone.
	s.cfg.Dir += "-restored"
	restored, err := embedded.Restore(embedded.RestoreConfig{Backup: backup, Dir: s.cfg.Dir, KeepRevisions: !bump, Logger: s.cfg.Logger})
	if err != nil {
		s.t.Fatal(err)
	}
	s.Start(on)
	return restored
}

// Dir is where the server's data are.
func (s *Server) Dir() string { return s.cfg.Dir }

// stepDownInterval is half a tick of raft in virtual time: the server never gets as far as an
// election.
const stepDownInterval = 250 * time.Millisecond

// Leaderless keeps the server without a leader for some time, as a member that cannot reach the
// others, or until ctx ends. It returns when the time has passed; an election then takes one or
// two seconds.
func (s *Server) Leaderless(ctx context.Context, d time.Duration) {
	s.t.Helper()
	tick := time.NewTicker(stepDownInterval)
	defer tick.Stop()
	for over := time.After(d); ; {
		if err := s.StepDown(ctx); err != nil {
			s.t.Fatal(err)
		}
		select {
		case <-tick.C:
		case <-over:
			return
		case <-ctx.Done():
			return
		}
	}
}
