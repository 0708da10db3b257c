// Package world owns whole federations for tests: a real etcd, control planes
// with their API, and simulated OSCARs with a real syncer each, in one process. It
// stands a canary on every cluster, and at the end of each test it checks the
// canaries and replays every revision of the store against the promises.
package world

import (
	"bytes"
	"context"
	"encoding/base64"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
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
	"github.com/oscarfed/oscarfed/store"
	"github.com/oscarfed/oscarfed/store/access"
	"github.com/oscarfed/oscarfed/store/embedded"
	"github.com/oscarfed/oscarfed/store/record"
	"github.com/oscarfed/oscarfed/store/seal"
	"github.com/oscarfed/oscarfed/store/storetest"
	"github.com/oscarfed/oscarfed/syncer"
	"github.com/oscarfed/oscarfed/syncer/manager"
	"github.com/oscarfed/oscarfed/test/invariants"
)

// User and Password of the administrator, of the API and of every OSCAR.
const (
	User     = "oscar"
	Password = "not-a-real-password"
)

// Options of a world. The zero value is three quick clusters.
type Options struct {
	// Clusters are the ids; default oscar-cluster-a, -b and -c.
	Clusters []string
	// Sim changes the simulated OSCARs' configuration.
	Sim func(*oscarsim.Config)
	// Etcd changes etcd's configuration.
	Etcd func(*embedded.Config)
	// Unguarded says that the test itself checks the promises, at every revision.
	Unguarded bool
	// Endpoints are those of an etcd that runs already; without them one is started.
	Endpoints []string
	// Forgets says that etcd's history will not be complete at the end: the promises
	// are then checked while it is made.
	Forgets bool
	// ControlPlane changes the control planes' configuration.
	ControlPlane func(*controlplane.Config)
	// API changes the configuration of the control planes' APIs.
	API func(*server.Config)
	// Syncer changes the syncers' configuration.
	Syncer func(*syncer.Config)
	// Names are service and bucket names that the test will use: each cluster
	// gets a foreign service and a foreign bucket under names that look like them.
	// Without names the canaries stand all the same, under names of their own.
	Names []string
	// Breaks are promises that the test itself breaks on purpose.
	Breaks []invariants.Rule
	// Secrets are canary secrets that must be found nowhere in etcd.
	Secrets []string
	// Guarded gives etcd TLS and users: each control plane and each syncer has its own
	// certificate and rights. World.Store is root's.
	Guarded bool
	// Issuer is that whose users the API and every OSCAR let in when they are in Group;
	// nil lets in the administrator alone.
	Issuer Issuer
	// IdentityFile is where the control planes' key is; without one it is in memory.
	IdentityFile string
	// Restorable puts a proxy before etcd, so that another may take its place.
	Restorable bool
	// OriginStorage lets workers use the MinIO of their origin: every syncer answers its
	// OSCAR, and every simulated MinIO says that it lives.
	OriginStorage bool
}

// World is a federation under test.
type World struct {
	T testing.TB
	// Etcd is its endpoint; several have commas between them.
	Etcd string
	// EtcdDir holds etcd's database and write-ahead log.
	EtcdDir string
	// Server is etcd; nil when Endpoints were given.
	Server   *embedded.Server
	Store    *store.Store
	API      string
	Client   *client.Client
	Log      *Log
	CP       *controlplane.ControlPlane
	clusters map[string]*Cluster
	identity *seal.Identity
	opts     Options
	// stops end the control planes that were started.
	stops map[*controlplane.ControlPlane]func()
	// kills end them, too, without an order.
	kills map[*controlplane.ControlPlane]func()
	// proxy stands before etcd in a restorable world, and witness is the file of the
	// first control plane.
	proxy   *storetest.Proxy
	witness string
	front   *front
	// users is nil unless the world is guarded.
	users *users
}

// Cluster is one simulated OSCAR with its syncer.
type Cluster struct {
	ID string
	// UID is of the registration that was made last for it.
	UID      string
	Sim      *oscarsim.Sim
	URL      string
	world    *World
	dir      string
	identity *seal.Identity
	stop     func()
	cancel   func()
	lines    []*lifeline
	server   *httptest.Server
	dead     atomic.Bool
}

// New starts a world and waits until every cluster can be placed on.
func New(t testing.TB, opts Options) *World {
	t.Helper()
	if opts.Clusters == nil {
		opts.Clusters = []string{"oscar-cluster-a", "oscar-cluster-b", "oscar-cluster-c"}
	}
	if opts.Names == nil {
		opts.Names = []string{"canary"}
	}
	w := &World{T: t, Log: &Log{}, clusters: map[string]*Cluster{}, opts: opts, stops: map[*controlplane.ControlPlane]func(){},
		kills: map[*controlplane.ControlPlane]func(){}}
	w.EtcdDir = filepath.Join(t.TempDir(), "etcd")
	etcd := embedded.Config{Dir: w.EtcdDir, ListenClient: "127.0.0.1:0", Fast: true, NoFsync: true}
	if opts.Etcd != nil {
		opts.Etcd(&etcd)
	}
	if opts.Guarded {
		w.users = newUsers(t)
		w.users.enter(&etcd)
	}
	if len(opts.Endpoints) == 0 {
		w.Server = storetest.Start(t, etcd)
		t.Cleanup(func() { w.Server.Close() }) // which may be another one by then
		w.opts.Endpoints = []string{w.Server.Endpoint()}
	}
	w.Etcd = strings.Join(w.opts.Endpoints, ",")
	w.Store = storetest.Open(t, w.As(access.Root))
	if opts.Guarded {
		if err := access.New(w.Store).SetUp(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	guard := invariants.Guard
	if opts.Forgets {
		guard = invariants.GuardLive
	}
	if !opts.Unguarded {
		guard(t, w.Etcd, invariants.Options{
			Fenced: true, Secrets: opts.Secrets, Breaks: opts.Breaks,
			Connect: func(c *store.Config) { w.users.certify(c, access.Root) },
		})
	}
	if opts.Restorable {
		w.proxy = storetest.NewProxy(t, w.Etcd)
		w.Etcd = w.proxy.Endpoint()
		w.opts.Endpoints = []string{w.Etcd}
	}
	w.front = newFront(t)
	w.witness = filepath.Join(t.TempDir(), "witness.json")
	if opts.IdentityFile == "" {
		w.identity = must(seal.Generate())(t)
	} else {
		w.identity = must(seal.LoadOrCreate(opts.IdentityFile))(t)
	}
	w.Restart()
	var sims []*oscarsim.Sim
	for _, id := range opts.Clusters {
		sims = append(sims, w.addCluster(id).Sim)
	}
	invariants.PlantCanaries(t, opts.Names, sims...)
	for _, id := range opts.Clusters {
		w.clusters[id].Start()
		if err := w.CP.AwaitCluster(t.Context(), id); err != nil {
			t.Fatalf("the syncer of %s did not connect: %v", id, err)
		}
	}
	return w
}

// As is how a user of etcd reaches it; where it has no users, anybody.
func (w *World) As(user string) store.Config {
	cfg := store.Config{Endpoints: w.opts.Endpoints}
	w.users.certify(&cfg, user)
	return cfg
}

// Cluster gives one by its id.
func (w *World) Cluster(id string) *Cluster { return w.clusters[id] }

// Restart stops the first control plane, if it runs, and starts it with its API.
func (w *World) Restart(mutate ...func(*controlplane.Config)) {
	w.T.Helper()
	if w.CP != nil {
		w.StopControlPlane(w.CP)
	}
	w.CP = w.startControlPlane(append(mutate, func(c *controlplane.Config) {
		if c.Witness == "" {
			c.Witness = w.witness
		}
	})...)
	w.API = w.Serve(w.CP)
	w.Client = must(client.New(client.Config{Endpoint: w.API, User: User, Password: Password}))(w.T)
}

// Identity is the control planes' key.
func (w *World) Identity() *seal.Identity { return w.identity }

// StartControlPlane starts one more instance over the same etcd and key.
func (w *World) StartControlPlane() *controlplane.ControlPlane {
	w.T.Helper()
	return w.startControlPlane()
}

func (w *World) startControlPlane(mutate ...func(*controlplane.Config)) *controlplane.ControlPlane {
	w.T.Helper()
	line, as := newLifeline(), w.As(access.ControlPlane)
	line.enter(&as)
	cfg := controlplane.Config{
		Store: storetest.Open(w.T, as), Identity: w.identity,
		DefaultCluster: w.opts.Clusters[0], LostAfter: time.Second, Logger: w.Log.Logger(),
	}
	if w.users != nil {
		how := w.users.access(w.opts.Endpoints)
		cfg.Access, cfg.Users = how, how
	}
	if w.opts.ControlPlane != nil {
		w.opts.ControlPlane(&cfg)
	}
	for _, m := range mutate {
		m(&cfg)
	}
	cp := must(controlplane.New(cfg))(w.T)
	stop, cancel := background(w.T, cp.Run)
	w.stops[cp] = stop
	w.kills[cp] = func() {
		line.Cut()
		cancel()
	}
	select {
	case <-cp.Ready():
	case <-time.After(2 * time.Minute): // it may have much to read, on a machine that is busy
		w.T.Fatal("the control plane was never ready")
	}
	return cp
}

// StopControlPlane stops an instance that StartControlPlane started.
func (w *World) StopControlPlane(cp *controlplane.ControlPlane) {
	w.front.remove(cp)
	w.stops[cp]()
}

// KillControlPlane ends an instance as SIGKILL does: its connections to etcd break off.
func (w *World) KillControlPlane(cp *controlplane.ControlPlane) { w.kills[cp]() }

// Serve puts the API before a control plane. Every answer is held against the
// API's description.
func (w *World) Serve(cp *controlplane.ControlPlane) string {
	w.T.Helper()
	auth := identity.Schemes{Basic: must(identity.NewBasic(User, Password))(w.T)}
	if w.opts.Issuer != nil {
		auth.Bearer = w.bearers(cp)
	}
	cfg := server.Config{ControlPlane: cp, Authenticator: auth, Logger: w.Log.Logger()}
	if w.opts.API != nil {
		w.opts.API(&cfg)
	}
	srv := httptest.NewServer(apitest.Handler(w.T, server.New(cfg).Handler()))
	w.T.Cleanup(srv.Close)
	w.front.add(cp, srv.URL)
	return srv.URL
}

func (w *World) addCluster(id string) *Cluster {
	w.T.Helper()
	c := w.machine(id)
	w.clusters[id] = c
	w.Register(c)
	return c
}

// Machine makes another OSCAR that calls itself by a cluster's id, with canaries. It
// is not registered, and its syncer not started.
func (w *World) Machine(id string) *Cluster {
	w.T.Helper()
	c := w.machine(id)
	invariants.PlantCanaries(w.T, w.opts.Names, c.Sim)
	return c
}

// Register registers a cluster under its id.
func (w *World) Register(c *Cluster) {
	w.T.Helper()
	reg, err := w.Client.RegisterCluster(w.T.Context(), v1.ClusterSpec{ClusterID: c.ID, Endpoint: c.URL})
	if err != nil {
		w.T.Fatal(err)
	}
	c.UID = reg.UID
	if w.users != nil {
		if err := w.users.access(w.opts.Endpoints).Admit(w.T.Context(), c.ID, c.UID); err != nil {
			w.T.Fatal(err)
		}
	}
}

func (w *World) machine(id string) *Cluster {
	w.T.Helper()
	cfg := oscarsim.Config{ClusterID: id, User: User, Password: Password}
	if w.opts.Issuer != nil {
		cfg.Users, cfg.Groups = w.bearer, []string{Group}
	}
	srv := httptest.NewUnstartedServer(nil)
	if w.opts.OriginStorage {
		cfg.MinIO = "http://" + srv.Listener.Addr().String()
	}
	if w.opts.Sim != nil {
		w.opts.Sim(&cfg)
	}
	c := &Cluster{ID: id, Sim: oscarsim.New(cfg), world: w, dir: w.T.TempDir(), identity: must(seal.Generate())(w.T)}
	c.server = srv
	srv.Config.Handler = c.Sim.Handler()
	srv.Start()
	c.URL = srv.URL
	w.T.Cleanup(func() {
		c.Sim.Kill() // ends requests that hang, so that Close does not wait for them
		srv.CloseClientConnections()
		srv.Close()
	})
	if err := os.WriteFile(filepath.Join(c.dir, "password"), []byte(Password), 0o600); err != nil {
		w.T.Fatal(err)
	}
	return c
}

// Recipient is the public key that secrets for the cluster are sealed to.
func (c *Cluster) Recipient() string { return c.identity.Recipient() }

// NewSyncer makes a syncer of the cluster that has not been started.
func (c *Cluster) NewSyncer(mutate ...func(*syncer.Config)) *syncer.Syncer {
	c.world.T.Helper()
	line := newLifeline()
	c.lines = append(c.lines, line)
	oscarClient := must(manager.New(manager.Config{Endpoint: c.URL, User: User, PasswordFile: filepath.Join(c.dir, "password"),
		Transport: c.unlessDead(line.transport())}))(c.world.T)
	c.world.T.Cleanup(oscarClient.Close)
	cfg := syncer.Config{
		Relay:     c.world.stream(c.ID),
		ClusterID: c.ID, OSCAR: oscarClient, Identity: c.identity, Memory: syncer.MemoryFile(filepath.Join(c.dir, "cluster-uid")),
		Resync: 300 * time.Millisecond, SessionTTL: 3 * time.Second, LateWindow: 2 * time.Second, RetryPause: 50 * time.Millisecond,
		JobPoll: 50 * time.Millisecond, JobGrace: 200 * time.Millisecond, JobResend: 2 * time.Second,
		Logger: c.world.Log.Logger().With("cluster", c.ID),
	}
	if c.world.opts.OriginStorage {
		c.answersOSCAR(&cfg)
	}
	if c.world.opts.Syncer != nil {
		c.world.opts.Syncer(&cfg)
	}
	for _, m := range mutate {
		m(&cfg)
	}
	if cfg.Store == nil {
		as := c.world.As(access.Syncer(c.ID, c.UID))
		line.enter(&as)
		cfg.Store = storetest.Open(c.world.T, as)
	}
	return must(syncer.New(cfg))(c.world.T)
}

// Start starts the cluster's syncer.
func (c *Cluster) Start(mutate ...func(*syncer.Config)) {
	c.world.T.Helper()
	c.stop, c.cancel = background(c.world.T, c.NewSyncer(mutate...).Run)
}

// Stop stops the cluster's syncer in order; its session ends.
func (c *Cluster) Stop() { c.stop() }

// Kill ends the cluster's syncers as SIGKILL does: their connections break off, and
// their session stands until its time is over.
func (c *Cluster) Kill() {
	for _, line := range c.lines {
		line.Cut()
	}
	c.lines = nil
	c.cancel()
}

// Background runs fn beside the test until the test's end or until the function
// that it returns is called, and fails the test when fn does.
func Background(t testing.TB, fn func(context.Context) error) (stop func()) {
	stop, _ = background(t, fn)
	return stop
}

// background also answers what tells fn to stop and does not wait for it.
func background(t testing.TB, fn func(context.Context) error) (stop, cancel func()) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := fn(ctx); err != nil && ctx.Err() == nil {
			t.Error(err)
		}
	}()
	stop = sync.OnceFunc(func() {
		cancel()
		<-done
	})
	t.Cleanup(stop)
	return stop, cancel
}

// Eventually waits until ok is true, and fails the test after two minutes.
func (w *World) Eventually(what string, ok func() bool) {
	w.T.Helper()
	limit := time.After(2 * time.Minute)
	for !ok() {
		select {
		case <-time.After(10 * time.Millisecond):
		case <-limit:
			w.T.Fatalf("it never came true: %s", what)
		}
	}
}

// Keys lists the keys below a prefix.
func (w *World) Keys(prefix string) []string {
	w.T.Helper()
	items, err := w.Store.ListKeys(w.T.Context(), prefix)
	if err != nil {
		w.T.Fatal(err)
	}
	out := []string{}
	for _, kv := range items {
		out = append(out, kv.Key)
	}
	return out
}

// Revision is the store's newest.
func (w *World) Revision() int64 {
	w.T.Helper()
	v, err := w.Store.Read(w.T.Context(), record.MetaKey)
	if err != nil {
		w.T.Fatal(err)
	}
	return v.Revision
}

// Do sends one raw request to the API as the administrator.
func (w *World) Do(method, path, body string, header ...string) (int, http.Header, string) {
	w.T.Helper()
	basic := base64.StdEncoding.EncodeToString([]byte(User + ":" + Password))
	return w.Raw(method, path, body, "Basic "+basic, header...)
}

func must[T any](v T, err error) func(testing.TB) T {
	return func(t testing.TB) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

// Log keeps what every part of a world logged.
type Log struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

// Logger writes to the log.
func (l *Log) Logger() *slog.Logger {
	return slog.New(slog.NewJSONHandler(l, &slog.HandlerOptions{Level: slog.LevelDebug}))
}

// Write implements io.Writer.
func (l *Log) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(p)
}

// String is all that was logged.
func (l *Log) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.String()
}
