package world

import (
	"net/http/httptest"
	"os"
	"path/filepath"
	"sync/atomic"
	"time"

	"github.com/google/uuid"

	v1 "github.com/oscarfed/oscarfed/api/v1"
	"github.com/oscarfed/oscarfed/internal/oscarsim"
	"github.com/oscarfed/oscarfed/store/access"
	"github.com/oscarfed/oscarfed/syncer"
	"github.com/oscarfed/oscarfed/syncer/jobs"
	"github.com/oscarfed/oscarfed/syncer/manager"
	"github.com/oscarfed/oscarfed/syncer/session"
	"github.com/oscarfed/oscarfed/test/invariants"
)

// Cluster is one simulated OSCAR with its syncer.
type Cluster struct {
	*Site
	// UID is of the registration that was made last for it.
	UID   string
	URL   string
	world *World
	// address of the OSCAR, and where its syncer keeps its files.
	address, dir string
	disk         *Disk
	// lock is a name that one syncer of the machine has at a time; locked says that one has it.
	lock   string
	locked bool

	task   testTask
	links  []*Link
	server *httptest.Server
	dead   atomic.Bool
}

// startClusters registers the clusters, and waits until the syncer of each is connected.
func (w *World) startClusters() {
	w.T.Helper()
	var sims []*oscarsim.Sim
	for _, id := range w.opts.Clusters {
		sims = append(sims, w.addCluster(id).Sim)
	}
	if len(sims) > 0 {
		invariants.PlantCanaries(w.T, w.opts.Names, sims...)
	}
	for _, id := range w.opts.Clusters {
		w.clusters[id].Start()
		if err := w.CP.Clusters.Await(w.T.Context(), id); err != nil {
			w.T.Fatalf("the syncer of %s did not connect: %v", id, err)
		}
	}
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
		if err := w.users.access(w.As(access.Root)).Admit(w.T.Context(), c.ID, c.UID); err != nil {
			w.T.Fatal(err)
		}
	}
}

func (w *World) machine(id string) *Cluster {
	w.T.Helper()
	cfg := oscarsim.Config{ClusterID: id, User: User, Password: Password, Dial: w.at(HostOSCAR(id)).DialContext}
	if w.opts.Issuer != nil {
		cfg.Users, cfg.Groups = w.user, []string{Group}
	}
	listener := w.listener(HostOSCAR(id), "")
	address := listener.Addr().String()
	if w.opts.OriginStorage {
		cfg.MinIO = "http://" + address
	}
	if w.opts.Sim != nil {
		w.opts.Sim(&cfg)
	}
	c := &Cluster{Site: Must(NewSite(cfg))(w.T), world: w, dir: w.T.TempDir(), disk: &Disk{}, lock: uuid.NewString(), address: address, URL: "http://" + address}
	c.serve(listener)
	w.T.Cleanup(c.Sim.Kill) // ends requests that hang, so that the server does not wait for them
	if err := os.WriteFile(filepath.Join(c.dir, "password"), []byte(Password), 0o600); err != nil {
		w.T.Fatal(err)
	}
	return c
}

// NewSyncer makes a syncer of the cluster that has not been started.
func (c *Cluster) NewSyncer(mutate ...func(*syncer.Config)) *syncer.Syncer {
	c.world.T.Helper()
	link := NewLink(c.world.at(HostSyncer(c.ID)))
	c.links = append(c.links, link)
	oscarClient := Must(manager.New(manager.Config{Endpoint: c.URL, User: User, PasswordFile: filepath.Join(c.dir, "password"),
		Transport: c.unlessDead(link.transport())}))(c.world.T)
	c.world.T.Cleanup(oscarClient.Close)
	cfg := syncer.Config{
		Relay: c.world.stream(c.ID, link), Dial: link.DialContext,
		ClusterID: c.ID, OSCAR: oscarClient, Identity: c.identity, Memory: session.MemoryFile(filepath.Join(c.dir, "cluster-uid")),
		InDoubt: c.disk, Lock: c.takeLock(),
		Logger: c.world.Log.Logger().With("cluster", c.ID),
	}
	if !c.world.virtual() { // real time is dear
		cfg.Resync, cfg.SessionTTL, cfg.LateWindow, cfg.RetryPause = 300*time.Millisecond, 3*time.Second, 2*time.Second, 50*time.Millisecond
		cfg.Jobs = jobs.Limits{Poll: 50 * time.Millisecond, Grace: 200 * time.Millisecond, Resend: 2 * time.Second}
	}
	if c.world.opts.OriginStorage {
		c.answersOSCAR(&cfg, link)
	}
	if c.world.opts.Syncer != nil {
		c.world.opts.Syncer(&cfg)
	}
	for _, m := range mutate {
		m(&cfg)
	}
	if cfg.Store == nil {
		as := c.world.as(access.Syncer(c.ID, c.UID), link)
		cfg.Store = c.world.open(as)
	}
	return Must(syncer.New(cfg))(c.world.T)
}

// Host is where the cluster's syncer is on a wire.
func (c *Cluster) Host() string { return HostSyncer(c.ID) }

// Start starts the cluster's syncer.
func (c *Cluster) Start(mutate ...func(*syncer.Config)) {
	c.world.T.Helper()
	c.task = background(c.world.ctx, c.world.T, c.NewSyncer(mutate...).Run)
}

// Stop stops the cluster's syncer in order; its session ends.
func (c *Cluster) Stop() {
	c.task.stop()
	c.locked = false
}

// takeLock gives the name of the lock, or none while another syncer has it.
func (c *Cluster) takeLock() string {
	if c.locked {
		return ""
	}
	c.locked = true
	return c.lock
}

// LoseDisk has the next syncer begin as one on another machine.
func (c *Cluster) LoseDisk() { c.disk, c.lock = &Disk{}, uuid.NewString() }

// Kill ends the cluster's syncers as SIGKILL does: their connections break off, and
// their session stands until its time is over.
func (c *Cluster) Kill() {
	c.disk, c.locked = c.disk.Successor(), false
	for _, link := range c.links {
		link.Cut()
	}
	c.links = nil
	c.world.killHost(HostSyncer(c.ID))
	c.task.Cancel()
}
