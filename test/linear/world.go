package linear

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/oscarfed/oscarfed/api/client"
	v1 "github.com/oscarfed/oscarfed/api/v1"
	"github.com/oscarfed/oscarfed/internal/oscarsim"
	"github.com/oscarfed/oscarfed/store"
	"github.com/oscarfed/oscarfed/store/record"
	"github.com/oscarfed/oscarfed/store/seal"
	"github.com/oscarfed/oscarfed/store/storetest"
	"github.com/oscarfed/oscarfed/test/invariants"
	"github.com/oscarfed/oscarfed/test/process"
)

// Who calls the API and the OSCARs.
const (
	user     = "oscar"
	password = "not-a-real-password"
)

// etcdMembers and controlPlanes are how many run.
const (
	etcdMembers   = 3
	controlPlanes = 2
)

// World is a whole federation whose parts are processes of their own: three
// members of etcd, two control planes, and a syncer beside each OSCAR, which are
// simulated in this process. Every link to etcd, and between its members, can be
// disturbed.
type World struct {
	t testing.TB
	// logs is where the ends of the programs' logs go when the test has failed.
	logs     string
	clusters []string
	etcd     *process.Members
	endpoint string
	// store reads by links of its own, which are never disturbed.
	store  *store.Store
	replay *invariants.Replay
	net    *network
	// peers are the ways to each member from the others, links those from each
	// program to each member.
	peers []*link
	links map[string][]*link
	sims  map[string]*oscarsim.Sim
	urls  map[string]string
	files map[string]string

	mu       sync.Mutex
	children map[string]*process.Child
	apis     []*client.Client
}

// New starts a world and waits until every cluster can be placed on. At the end of
// the test the ends of the programs' logs are written below logs if it has failed.
func New(t testing.TB, logs string, clusters ...string) *World {
	t.Helper()
	w := &World{
		t: t, logs: logs, clusters: clusters, net: newNetwork(t), links: map[string][]*link{}, sims: map[string]*oscarsim.Sim{},
		urls: map[string]string{}, files: map[string]string{}, children: map[string]*process.Child{}, apis: make([]*client.Client, controlPlanes),
	}
	w.etcd = process.StartMembers(t, etcdMembers, func(listen string) string {
		l := w.net.link("peer "+listen, listen)
		w.peers = append(w.peers, l)
		return l.address()
	})
	w.endpoint = strings.Join(w.etcd.Endpoints(), ",")
	w.store = storetest.Open(t, store.Config{Endpoints: w.etcd.Endpoints()})
	replay, err := invariants.NewReplay(invariants.Options{Fenced: true})
	if err != nil {
		t.Fatal(err)
	}
	w.replay = replay

	dir := t.TempDir()
	w.files["password"] = filepath.Join(dir, "password")
	if err := os.WriteFile(w.files["password"], []byte(password), 0o600); err != nil {
		t.Fatal(err)
	}
	w.files["identity"] = filepath.Join(dir, "identity.age")
	if _, err := seal.LoadOrCreate(w.files["identity"]); err != nil {
		t.Fatal(err)
	}
	var sims []*oscarsim.Sim
	for _, id := range clusters {
		sims = append(sims, w.addSim(id))
	}
	invariants.PlantCanaries(t, []string{"history"}, sims...)
	t.Cleanup(w.end)
	for k := range controlPlanes {
		w.files[controlPlane(k)] = t.TempDir() // what it has seen of the store
		w.must(w.startControlPlane(k))
	}
	for _, id := range clusters {
		if _, err := w.apis[0].RegisterCluster(t.Context(), v1.ClusterSpec{ClusterID: id, Endpoint: w.urls[id]}); err != nil {
			t.Fatal(err)
		}
		w.must(w.startSyncer(id))
	}
	w.must(w.Settle(t.Context()))
	return w
}

func (w *World) must(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

func (w *World) addSim(id string) *oscarsim.Sim {
	sim := oscarsim.New(oscarsim.Config{ClusterID: id, User: user, Password: password})
	server := httptest.NewServer(sim.Handler())
	w.t.Cleanup(func() {
		sim.Kill() // ends requests that hang, so that Close does not wait for them
		server.CloseClientConnections()
		server.Close()
	})
	w.sims[id], w.urls[id] = sim, server.URL
	w.files[id] = filepath.Join(w.t.TempDir(), "identity.age") // what a syncer remembers is beside it
	return sim
}

// end kills the programs but etcd.
func (w *World) end() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for name, c := range w.children {
		c.Kill()
		if w.t.Failed() {
			w.must(os.MkdirAll(w.logs, 0o755))
			w.must(os.WriteFile(filepath.Join(w.logs, strings.ReplaceAll(name, " ", "-")+".log"), []byte(c.Log()), 0o644))
		}
	}
}

// via makes, once, the links by which a program reaches etcd.
func (w *World) via(program string) string {
	if w.links[program] == nil {
		for i, address := range w.etcd.Addresses() {
			w.links[program] = append(w.links[program], w.net.link(fmt.Sprintf("%s to m%d", program, i), address))
		}
	}
	var out []string
	for _, l := range w.links[program] {
		out = append(out, "http://"+l.address())
	}
	return strings.Join(out, ",")
}

// controlPlane names one of several.
func controlPlane(k int) string { return fmt.Sprintf("control plane %d", k) }

func (w *World) startControlPlane(k int) error {
	name := controlPlane(k)
	c, err := w.launch(name, process.ControlPlane, "--listen=127.0.0.1:0", "--metrics-listen=", "--etcd-endpoints="+w.via(name),
		"--identity-file="+w.files["identity"], "--data-dir="+w.files[name], "--admin-password-file="+w.files["password"], "--rate-limit=0",
		"--default-cluster="+w.clusters[0], "--prepare-deadline=5s", "--apply-grace=10s", "--log-level=debug")
	if err != nil {
		return err
	}
	line, err := c.Ready()
	if err != nil {
		return err
	}
	api, err := client.New(client.Config{
		Endpoint: "http://" + strings.TrimPrefix(line, "oscar-controlplane: API on "), User: user, Password: password, Tries: 1,
	})
	if err != nil {
		return err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.apis[k] = api
	return nil
}

func (w *World) startSyncer(id string) error {
	_, err := w.launch(id, process.Syncer, "--cluster-id="+id, "--etcd-endpoints="+w.via(id), "--metrics-listen=",
		"--oscar-endpoint="+w.urls[id], "--oscar-user="+user, "--oscar-password-file="+w.files["password"],
		"--identity-file="+w.files[id], "--resync=2s", "--session-ttl=2s", "--late-window=2s", "--log-level=debug")
	return err
}

// launch starts a program in the place of the one of that name.
func (w *World) launch(name, program string, args ...string) (*process.Child, error) {
	c, err := process.Launch(w.t, program, "", args...)
	if err != nil {
		return nil, err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.children[name] = c
	return c, nil
}

func (w *World) child(name string) *process.Child {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.children[name]
}

// api gives one control plane or the other.
func (w *World) api(k int) *client.Client {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.apis[k]
}

// settleLimit bounds how long a federation may take to come to rest when nothing
// disturbs it.
const settleLimit = 2 * time.Minute

// Settle waits until every cluster has a syncer, nothing is in flight and no
// tombstone waits.
func (w *World) Settle(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, settleLimit)
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	why := ""
	for {
		now := w.unsettled(ctx)
		if now == "" {
			return nil
		}
		if why == "" || ctx.Err() == nil {
			why = now
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("the federation did not come to rest within %s: %s", settleLimit, why)
		}
	}
}

// unsettled says what is under way; empty for nothing.
func (w *World) unsettled(ctx context.Context) string {
	items, _, err := w.store.List(ctx, record.Root)
	if err != nil {
		return err.Error()
	}
	there := map[string]bool{}
	for _, kv := range items {
		there[kv.Key] = true
		switch ref := record.ParseKey(kv.Key); ref.Kind {
		case record.KindFederation:
			f, err := store.Decode[record.Federation](kv)
			if err != nil || f.Phase.InFlight() || f.Phase == record.PhaseDeleting || f.Change != nil || len(f.Leaving) > 0 {
				return kv.Key + " is under way"
			}
		case record.KindDesiredService:
			d, err := store.Decode[record.Desired](kv)
			if err != nil || d.Tombstone() {
				return kv.Key + " is a tombstone"
			}
		}
	}
	for _, id := range w.clusters {
		if !there[record.SessionKey(id)] || !there[record.ObservedClusterKey(id)] {
			return id + " has no syncer"
		}
	}
	return ""
}

// Advance checks all revisions so far, and makes etcd forget them: who follows a
// watch and was away meanwhile must list again.
func (w *World) Advance(ctx context.Context) error {
	revision, err := w.replay.Advance(ctx, w.store)
	if err != nil {
		return err
	}
	etcd, err := clientv3.New(clientv3.Config{Endpoints: w.etcd.Endpoints(), DialTimeout: 5 * time.Second})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	_, err = etcd.Compact(ctx, revision)
	return errors.Join(err, etcd.Close())
}

// Report checks what is left of the history.
func (w *World) Report(ctx context.Context) (*invariants.Report, error) {
	return w.replay.Finish(ctx, w.store)
}

// links of one program to all members, or to one of them.
func (w *World) some(program string, rng *rand.Rand) []*link {
	all := w.links[program]
	if rng.IntN(3) == 0 {
		return all[:1+rng.IntN(len(all))]
	}
	return all
}
