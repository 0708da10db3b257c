package oscarsim

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/oscarfed/oscarfed/internal/oscarsim/wire"
)

// client-go's default limits, in calls.
const (
	kubeQPS   = 5
	kubeBurst = 10
)

// Sim is one OSCAR with its Kubernetes and MinIO. All methods are safe for concurrent use.
type Sim struct {
	cfg      Config
	provider wire.MinIOProvider
	routes   []route
	throttle *rate.Limiter
	started  time.Time

	mu           sync.Mutex
	kube         kube
	minio        minio
	nodes        []Node
	repositories []string        // allowed image repositories
	denied       map[string]bool // subjects
	missing      map[string]bool // images that cannot be pulled
	faults       faults
	journal      journal
	life         *life
	changed      *sync.Cond // a request or late work has ended; its lock is mu
}

// life is one OSCAR process, from its start to its kill.
type life struct {
	ctx  context.Context
	kill context.CancelFunc
	// The Sim's lock guards these counts.
	running    int // requests
	late       int // requests whose work is done late, without an answer
	restarting int // restarts of MinIO under way
}

func newLife() *life {
	ctx, kill := context.WithCancel(context.Background())
	return &life{ctx: ctx, kill: kill}
}

// New makes an OSCAR without services. It starts nothing.
func New(cfg Config) *Sim {
	cfg = cfg.withDefaults()
	s := &Sim{
		cfg:      cfg,
		provider: cfg.provider(),
		throttle: rate.NewLimiter(kubeQPS, kubeBurst),
		started:  time.Now().UTC(),
		kube:     newKube(cfg.ServicesNamespace, cfg.Kubernetes, cfg.Function != nil),
		minio:    newMinio(),
		nodes:    cfg.Nodes,
		denied:   map[string]bool{},
		missing:  map[string]bool{},
		faults:   faults{},
		journal:  newJournal(),
		life:     newLife(),
	}
	s.kube.load.cfg, s.kube.load.nodes = cfg.Workload, cfg.Nodes
	s.changed = sync.NewCond(&s.mu)
	s.routes = s.table()
	return s
}

// Handler answers OSCAR's API and /_sim/. Use Kill to end what it still does when its server is gone.
func (s *Sim) Handler() http.Handler { return http.HandlerFunc(s.serve) }

// Serve answers on l until ctx ends, then kills the process (see Kill). It closes l and returns when nothing runs any
// more. The state stays and may be served again.
func (s *Sim) Serve(ctx context.Context, l net.Listener) error {
	srv := &http.Server{
		Handler:           s.Handler(),
		ReadHeaderTimeout: 10 * time.Second,
		ReadTimeout:       300 * time.Second, // OSCAR's own
		WriteTimeout:      300 * time.Second,
		IdleTimeout:       120 * time.Second,
		MaxHeaderBytes:    64 << 10,
		ErrorLog:          slog.NewLogLogger(s.cfg.Logger.Handler(), slog.LevelDebug),
	}
	failed := make(chan error, 1)
	go func() { failed <- srv.Serve(l) }()
	var err error
	select {
	case err = <-failed:
		_ = srv.Close()
	case <-ctx.Done():
		_ = srv.Close()
		err = <-failed
	}
	s.Kill()
	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return err
}

// Kill ends the process as a SIGKILL does: requests in the middle of their work stop where they are and their
// connections drop; late work is never done. It returns when nothing of that process runs any more. The state stays;
// the next request meets a new process.
func (s *Sim) Kill() {
	s.mu.Lock()
	defer s.mu.Unlock()
	old := s.life
	old.kill()
	s.life = newLife()
	for old.running > 0 || old.late > 0 {
		s.changed.Wait()
	}
}

// Settle waits until the work of late faults is done.
func (s *Sim) Settle() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for l := s.life; l.late > 0; {
		s.changed.Wait()
	}
}

func newToken() string {
	var b [32]byte
	rand.Read(b[:]) // never fails
	return hex.EncodeToString(b[:])
}
