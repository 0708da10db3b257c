package embedded

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"sync"

	"go.etcd.io/etcd/client/pkg/v3/fileutil"
	"go.etcd.io/etcd/server/v3/embed"
)

// ErrInUse says that another process runs a server on the data directory.
var ErrInUse = errors.New("data directory is in use by another process")

// Server is a running member. When its disk fails, etcd ends the process: going
// on would lose what was acknowledged.
type Server struct {
	etcd     *embed.Etcd
	lock     *fileutil.LockedFile
	endpoint string
	errs     chan error
	closing  chan struct{}
	close    sync.Once
	ended    sync.WaitGroup
}

// Start runs a member and waits until it is ready to answer. ctx bounds only the
// start. A directory that another process has open is ErrInUse.
func Start(ctx context.Context, cfg Config) (*Server, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	cfg = cfg.withDefaults()
	conf, err := cfg.embed()
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(cfg.Dir, 0o700); err != nil {
		return nil, fmt.Errorf("etcd data directory: %w", err)
	}
	// etcd itself would wait for the other process, for ever and in silence.
	lock, err := fileutil.TryLockFile(filepath.Join(cfg.Dir, "lock"), os.O_WRONLY|os.O_CREATE, 0o600)
	if errors.Is(err, fileutil.ErrLocked) {
		return nil, fmt.Errorf("%s: %w; stop it, or choose another directory", cfg.Dir, ErrInUse)
	}
	if err != nil {
		return nil, fmt.Errorf("lock the etcd data directory: %w", err)
	}
	etcd, err := embed.StartEtcd(conf)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("start etcd in %s on %s: %w", cfg.Dir, cfg.ListenClient, err), lock.Close())
	}
	s := &Server{
		etcd:     etcd,
		lock:     lock,
		endpoint: (&url.URL{Scheme: conf.ListenClientUrls[0].Scheme, Host: etcd.Clients[0].Addr().String()}).String(),
		errs:     make(chan error, 1),
		closing:  make(chan struct{}),
	}
	select {
	case <-etcd.Server.ReadyNotify():
	case err := <-etcd.Err():
		s.Close()
		return nil, fmt.Errorf("etcd in %s: %w", cfg.Dir, err)
	case <-ctx.Done():
		s.Close()
		return nil, fmt.Errorf("etcd in %s is not ready: %w", cfg.Dir, context.Cause(ctx))
	}
	s.ended.Go(s.watch)
	return s, nil
}

// watch hands on why the server ended by itself.
func (s *Server) watch() {
	var err error
	select {
	case err = <-s.etcd.Err():
	case <-s.etcd.Server.StopNotify():
		err = errors.New("etcd stopped by itself")
	case <-s.closing:
		return
	}
	select {
	case <-s.closing:
	default:
		s.errs <- err
	}
}

// Endpoint is the URL that clients connect to.
func (s *Server) Endpoint() string { return s.endpoint }

// Err carries the cause if the server ends without Close.
func (s *Server) Err() <-chan error { return s.errs }

// Close stops the server and frees the directory. Close the clients before:
// open watches hold it up for some seconds.
func (s *Server) Close() {
	s.close.Do(func() {
		close(s.closing)
		s.etcd.Close()
		s.ended.Wait()
		_ = s.lock.Close() // gone with the process at the latest
	})
}
