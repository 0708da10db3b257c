// Package join_test has clusters join, renew, leave and return over a real etcd with
// TLS and users, a control plane behind its API, and syncers with their OSCARs. Clocks of
// the control plane and of the syncers are moved; that of etcd is not, so that every
// certificate in use is valid now.
package join_test

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/oscarfed/oscarfed/api/apitest"
	"github.com/oscarfed/oscarfed/api/client"
	"github.com/oscarfed/oscarfed/api/server"
	v1 "github.com/oscarfed/oscarfed/api/v1"
	"github.com/oscarfed/oscarfed/controlplane"
	"github.com/oscarfed/oscarfed/controlplane/identity"
	"github.com/oscarfed/oscarfed/internal/oscarsim"
	"github.com/oscarfed/oscarfed/internal/pki"
	"github.com/oscarfed/oscarfed/store"
	"github.com/oscarfed/oscarfed/store/access"
	"github.com/oscarfed/oscarfed/store/embedded"
	"github.com/oscarfed/oscarfed/store/seal"
	"github.com/oscarfed/oscarfed/store/storetest"
	"github.com/oscarfed/oscarfed/syncer"
	"github.com/oscarfed/oscarfed/syncer/enroll"
	"github.com/oscarfed/oscarfed/syncer/manager"
	"github.com/oscarfed/oscarfed/test/invariants"
	"github.com/oscarfed/oscarfed/test/world"
)

const (
	user     = "oscar"
	password = "correct horse"
)

func must[T any](v T, err error) func(testing.TB) T {
	return func(t testing.TB) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

// clock is a time that a test moves.
type clock struct {
	mu   sync.Mutex
	past time.Duration
}

func (c *clock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return time.Now().Add(c.past)
}

func (c *clock) pass(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.past += d
}

// federation is a control plane over an etcd that has users.
type federation struct {
	t         *testing.T
	clock     *clock
	log       *slog.Logger
	root      *store.Store
	endpoint  string
	authority *pki.Authority
	cp        *controlplane.ControlPlane
	api       *httptest.Server
	client    *client.Client
	ca        []byte

	// gone makes the API answer as a proxy does whose server is away; turned counts
	// what it turned away.
	gone   atomic.Bool
	turned atomic.Int64
}

func newFederation(t *testing.T) *federation {
	t.Helper()
	f := &federation{t: t, clock: &clock{}, log: storetest.Logger(t)}
	dir := filepath.Join(t.TempDir(), "pki")
	f.authority = must(pki.LoadOrCreate(dir, "etcd", time.Now))(t)
	certFile := filepath.Join(dir, "server.pem")
	must(f.authority.Server(pki.ServerConfig{File: certFile, Hosts: []string{"127.0.0.1"}, Life: time.Hour, Logger: f.log}))(t)
	f.endpoint = storetest.Start(t, embedded.Config{
		Dir: filepath.Join(t.TempDir(), "etcd"), ListenClient: "127.0.0.1:0", Fast: true, NoFsync: true,
		CertFile: certFile, KeyFile: certFile, CAFile: filepath.Join(dir, pki.AuthorityCertFile),
		Guarded: true, Trusted: []string{access.ControlPlane},
	}).Endpoint()
	f.root = f.open(access.Root)
	admin := access.New(f.root)
	if err := admin.SetUp(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { // when all that writes has stopped
		ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), time.Minute)
		defer cancel()
		report, err := invariants.CheckStore(ctx, f.root, invariants.Options{Fenced: true})
		if err != nil {
			t.Error("the promises could not be checked:", err)
			return
		}
		report.Tell(t)
	})
	f.cp = must(controlplane.New(controlplane.Config{
		Store: f.open(access.ControlPlane), Identity: must(seal.Generate())(t), DefaultCluster: "a", Now: f.clock.now, Logger: f.log,
		Access: &controlplane.EtcdAccess{
			Admin:     func(context.Context) (*access.Admin, func(), error) { return admin, func() {}, nil },
			Authority: f.authority, EtcdCA: f.authority.CertPEM(), Endpoints: []string{f.endpoint},
		},
	}))(t)
	world.Background(t, f.cp.Run)
	select {
	case <-f.cp.Ready():
	case <-time.After(time.Minute):
		t.Fatal("the control plane was never ready")
	}
	handler := apitest.Handler(t, server.New(server.Config{
		ControlPlane: f.cp, Authenticator: must(identity.NewBasic(user, password))(t), Logger: f.log,
	}).Handler())
	f.api = httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if f.gone.Load() {
			f.turned.Add(1)
			http.Error(w, "no upstream", http.StatusBadGateway)
			return
		}
		handler.ServeHTTP(w, r)
	}))
	t.Cleanup(f.api.Close)
	f.ca = encode(f.api.Certificate())
	f.client = must(client.New(client.Config{Endpoint: f.api.URL, User: user, Password: password, Transport: f.api.Client().Transport}))(t)
	return f
}

func (f *federation) open(user string) *store.Store {
	f.t.Helper()
	return storetest.Open(f.t, store.Config{
		Endpoints: []string{f.endpoint}, CA: f.authority.CertPEM(), Certificate: f.authority.Client(user, time.Hour).Certificate, Logger: f.log,
	})
}

// site is the machine of one cluster: an OSCAR, and a directory that outlives its
// syncer.
type site struct {
	f        *federation
	id       string
	dir      string
	sim      *oscarsim.Sim
	url      string
	identity *seal.Identity
	kube     string
	token    string

	// enrolment is that of the syncer that runs, or ran last.
	enrolment *enroll.Enrolment
	stop      func()
}

func (f *federation) site(id string) *site {
	f.t.Helper()
	s := &site{f: f, id: id, dir: f.t.TempDir(), kube: "kube-" + id, identity: must(seal.Generate())(f.t), stop: func() {}}
	s.sim = oscarsim.New(oscarsim.Config{ClusterID: id, User: user, Password: password})
	srv := httptest.NewServer(s.sim.Handler())
	s.url = srv.URL
	f.t.Cleanup(func() {
		s.sim.Kill()
		srv.CloseClientConnections()
		srv.Close()
	})
	if err := os.WriteFile(filepath.Join(s.dir, "password"), []byte(password), 0o600); err != nil {
		f.t.Fatal(err)
	}
	return s
}

// register makes the cluster known and gives the machine a token.
func (s *site) register() {
	s.f.t.Helper()
	if _, err := s.f.client.RegisterCluster(s.f.t.Context(), v1.ClusterSpec{ClusterID: s.id, Endpoint: s.url}); err != nil {
		s.f.t.Fatal(err)
	}
	s.invite(false)
}

func (s *site) invite(replace bool) {
	s.f.t.Helper()
	token, err := s.f.client.IssueJoin(s.f.t.Context(), s.id, v1.JoinRequest{ReplaceKey: replace})
	if err != nil {
		s.f.t.Fatal(err)
	}
	s.token = token.Token
}

// openEnrolment is what a start of the syncer does first.
func (s *site) openEnrolment() *enroll.Enrolment {
	s.f.t.Helper()
	s.enrolment = must(enroll.Open(enroll.Config{
		ClusterID: s.id, ControlPlane: s.f.api.URL, CA: s.f.ca, Dir: s.dir, Recipient: s.identity.Recipient(),
		Token:         func() (string, error) { return s.token, nil },
		KubeSystemUID: func(context.Context) (string, error) { return s.kube, nil },
		OscarID: func(ctx context.Context) (string, error) {
			return syncer.Identify(ctx, s.oscar(), func() bool { return true })
		},
		FirstPause: 10 * time.Millisecond, LastPause: time.Second, RefusedPause: 10 * time.Millisecond, Look: 10 * time.Millisecond,
		Now: s.f.clock.now, Logger: s.f.log,
	}))(s.f.t)
	return s.enrolment
}

func (s *site) oscar() *manager.Client {
	s.f.t.Helper()
	return must(manager.New(manager.Config{Endpoint: s.url, User: user, PasswordFile: filepath.Join(s.dir, "password")}))(s.f.t)
}

// ensure opens the enrolment and answers what stops the syncer's start.
func (s *site) ensure() error {
	s.f.t.Helper()
	ctx, cancel := context.WithTimeout(s.f.t.Context(), time.Minute)
	defer cancel()
	return s.openEnrolment().Ensure(ctx)
}

// connect is a client of etcd with the syncer's certificate.
func (s *site) connect() *store.Store {
	s.f.t.Helper()
	ca, endpoints := s.enrolment.Etcd()
	return storetest.Open(s.f.t, store.Config{Endpoints: endpoints, CA: ca, Certificate: s.enrolment.Certificate, Logger: s.f.log})
}

// start joins, or goes on as what the directory says, and runs the syncer.
func (s *site) start() {
	s.f.t.Helper()
	if err := s.ensure(); err != nil {
		s.f.t.Fatal(err)
	}
	enrolment, st := s.enrolment, s.connect()
	sync := must(syncer.New(syncer.Config{
		ClusterID: s.id, Store: st, Identity: s.identity, Memory: syncer.MemoryFile(filepath.Join(s.dir, "cluster-uid")),
		OSCAR:            s.oscar(),
		AcceptClusterUID: enrolment.ClusterUID(), Resync: 300 * time.Millisecond, SessionTTL: 5 * time.Second, LateWindow: 2 * time.Second,
		RetryPause: 50 * time.Millisecond, Logger: s.f.log,
	}))(s.f.t)
	stop := world.Background(s.f.t, sync.Run)
	stopRenewing := world.Background(s.f.t, func(ctx context.Context) error {
		if err := enrolment.Run(ctx); !errors.Is(err, enroll.ErrMoved) {
			return err
		}
		return nil
	})
	s.stop = func() { stop(); stopRenewing() }
}

// eventually waits until ok is true.
func (f *federation) eventually(what string, ok func() bool) {
	f.t.Helper()
	limit := time.After(2 * time.Minute)
	for !ok() {
		select {
		case <-time.After(10 * time.Millisecond):
		case <-limit:
			f.t.Fatalf("it never came true: %s", what)
		}
	}
}

func (f *federation) await(ids ...string) {
	f.t.Helper()
	ctx, cancel := context.WithTimeout(f.t.Context(), 2*time.Minute)
	defer cancel()
	for _, id := range ids {
		if err := f.cp.AwaitCluster(ctx, id); err != nil {
			f.t.Fatalf("the syncer of %s did not connect: %v", id, err)
		}
	}
}
