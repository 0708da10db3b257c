package embedded

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"

	"go.etcd.io/etcd/client/pkg/v3/fileutil"
	"google.golang.org/grpc"

	"github.com/oscarfed/oscarfed/internal/handshake"
	"github.com/oscarfed/oscarfed/store/guard"
)

// ErrInUse says that another process runs a server on the data directory.
var ErrInUse = errors.New("data directory is in use by another process")

// Server is a running member. When its disk fails, etcd ends the process: going
// on would lose what was acknowledged.
type Server struct {
	*member
	endpoint string
	errs     chan error
	// open ends when the server is closed, by shut.
	open    context.Context
	shut    context.CancelFunc
	release func()
	once    sync.Once
	watcher sync.WaitGroup
	// gate is nil unless the server is guarded.
	gate   *guard.Gate
	rights rights
}

// Start runs a member and waits until it is ready to answer. ctx bounds only the
// start. A directory that another process has open is ErrInUse. Metrics and
// health are served by HTTP on the socket http.sock in the data directory, where
// its path is short enough for one.
func Start(ctx context.Context, cfg Config) (*Server, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	cfg = cfg.withDefaults()
	release, err := lock(cfg.Dir)
	if err != nil {
		return nil, err
	}
	socket, cleanup, err := socketFor(cfg.Dir, "http.sock")
	if err != nil {
		release()
		return nil, err
	}
	s := &Server{errs: make(chan error, 1)}
	s.open, s.shut = context.WithCancel(context.WithoutCancel(ctx))
	s.release = func() { s.shut(); cleanup(); release() }
	options, err := s.options(cfg)
	if err != nil {
		s.release()
		return nil, err
	}
	conf, err := cfg.embed(socket, s.quiet, options...)
	if err == nil {
		s.member, err = cfg.start(conf, s.quiet, options)
	}
	if err != nil {
		s.release()
		return nil, fmt.Errorf("start etcd in %s on %s: %w", cfg.Dir, cfg.ListenClient, err)
	}
	users := s.server.AuthStore()
	s.rights.users.Store(&users)
	if err := s.ready(ctx); err != nil {
		s.Close()
		return nil, fmt.Errorf("etcd in %s: %w", cfg.Dir, err)
	}
	client := conf.ListenClientUrls[0]
	client.Host = s.address // the port is known only now
	s.endpoint = client.String()
	s.watcher.Go(s.watch)
	if s.gate != nil {
		s.watcher.Go(func() { s.rights.watch(s.gate, s.open.Done()) })
	}
	return s, nil
}

// options are what the server adds to etcd's own.
func (s *Server) options(cfg Config) ([]grpc.ServerOption, error) {
	out := []grpc.ServerOption{guard.Drain(s.open), grpc.ConnectionTimeout(handshake.Timeout)}
	if !cfg.Guarded {
		return append(out, guard.New(guard.Config{Etcd: s, Logger: cfg.Logger}).SharingOptions()...), nil
	}
	info := cfg.tlsInfo()
	conf, err := info.ServerConfig()
	if err != nil {
		return nil, fmt.Errorf("etcd's certificates: %w", err)
	}
	limits := guard.New(guard.Config{
		Etcd: s, Trusted: append([]string{rootUser}, cfg.Trusted...), LeaseKey: cfg.LeaseKey,
		OnLease: cfg.OnLease, OnRefusal: cfg.OnRefusal, Logger: cfg.Logger,
	})
	s.gate = limits.NewGate(conf, s.rights.admit)
	return slices.Concat(out, s.gate.ServerOptions(), limits.ServerOptions()), nil
}

// lock keeps a second process out. etcd itself would wait for the first one, for
// ever and in silence.
func lock(dir string) (release func(), err error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("etcd data directory: %w", err)
	}
	file, err := fileutil.TryLockFile(filepath.Join(dir, "lock"), os.O_WRONLY|os.O_CREATE, 0o600)
	if errors.Is(err, fileutil.ErrLocked) {
		return nil, fmt.Errorf("%s: %w; stop it, or choose another directory", dir, ErrInUse)
	}
	if err != nil {
		return nil, fmt.Errorf("lock the etcd data directory: %w", err)
	}
	return func() { _ = file.Close() }, nil // the lock ends with the process at the latest
}

func (s *Server) ready(ctx context.Context) error {
	select {
	case <-s.server.ReadyNotify():
		return nil
	case err := <-s.failed:
		return fmt.Errorf("it ended while starting: %w", err)
	case <-ctx.Done():
		return fmt.Errorf("it is not ready: %w", context.Cause(ctx))
	}
}

// watch passes on why the server ended by itself.
func (s *Server) watch() {
	var err error
	select {
	case err = <-s.failed:
	case <-s.server.StopNotify():
		err = errors.New("etcd stopped by itself")
	case <-s.open.Done():
		return
	}
	if !s.isClosing() {
		s.errs <- err
	}
}

func (s *Server) isClosing() bool { return s.open.Err() != nil }

// quiet leaves out what etcd says about its own orderly end, and what is known
// to be harmless.
func (s *Server) quiet(message string) bool { return s.isClosing() || harmless(message) }

// Endpoint is the URL that clients connect to.
func (s *Server) Endpoint() string { return s.endpoint }

// Err carries the cause if the server ends without Close.
func (s *Server) Err() <-chan error { return s.errs }

// Close stops the server and frees the directory. Watches are ended, other
// requests are answered first.
func (s *Server) Close() {
	s.once.Do(func() {
		s.shut()
		select {
		case <-s.server.ReadyNotify():
		default:
			// etcd's Close waits for ever for a server that never got ready.
			s.server.HardStop()
		}
		s.stop()
		s.watcher.Wait()
		s.release()
	})
}
