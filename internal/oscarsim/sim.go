package oscarsim

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
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
	repositories []string // allowed image repositories
	faults       faults
	journal      journal
	life         *life
	settled      *sync.Cond // signalled when late work ends; its lock is mu
}

// life is one OSCAR process, from its start to its kill.
type life struct {
	ctx        context.Context
	kill       context.CancelFunc
	late       int // requests whose work nobody waits for; the Sim's lock guards it
	restarting int // creates and deletes that are restarting MinIO; likewise
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
		kube:     newKube(),
		minio:    newMinio(),
		nodes:    cfg.Nodes,
		faults:   faults{},
		journal:  newJournal(),
		life:     newLife(),
	}
	s.settled = sync.NewCond(&s.mu)
	s.routes = s.table()
	return s
}

// Handler answers OSCAR's API and /_sim/. Use Kill to end what it still does when its server is gone.
func (s *Sim) Handler() http.Handler { return http.HandlerFunc(s.serve) }

// Serve answers on l until ctx ends, then kills the process: requests in the middle of their work stop where they
// are. It closes l and returns when nothing runs any more. The state stays and may be served again.
func (s *Sim) Serve(ctx context.Context, l net.Listener) error {
	srv := &http.Server{
		Handler:           s.Handler(),
		ReadHeaderTimeout: 10 * time.Second,
		ReadTimeout:       300 * time.Second, // OSCAR's own
		WriteTimeout:      300 * time.Second,
		IdleTimeout:       120 * time.Second,
		MaxHeaderBytes:    64 << 10,
	}
	failed := make(chan error, 1)
	go func() { failed <- srv.Serve(l) }()
	var err error
	select {
	case err = <-failed:
	case <-ctx.Done():
	}
	s.Kill()
	// Handlers end at once now that their life has; the limit is for a client that reads slowly.
	drain, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	if srv.Shutdown(drain) != nil {
		srv.Close()
	}
	if err == nil {
		err = <-failed
	}
	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return err
}

// Kill ends the process as a SIGKILL does: requests in the middle of their work stop where they are, their
// connections drop, and so does late work. It returns when late work has ended. The state stays; the next request
// meets a new process.
func (s *Sim) Kill() {
	s.mu.Lock()
	defer s.mu.Unlock()
	old := s.life
	old.kill()
	s.life = newLife()
	s.settle(old)
}

// Settle waits until the work of late faults is done.
func (s *Sim) Settle() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.settle(s.life)
}

// settle waits for the late work of a life. The caller holds the lock.
func (s *Sim) settle(l *life) {
	for l.late > 0 {
		s.settled.Wait()
	}
}

func newToken() string {
	var b [32]byte
	rand.Read(b[:]) // never fails
	return hex.EncodeToString(b[:])
}
