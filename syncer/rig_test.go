package syncer_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/oscarfed/oscarfed/internal/oscarsim"
	"github.com/oscarfed/oscarfed/store"
	"github.com/oscarfed/oscarfed/store/embedded"
	"github.com/oscarfed/oscarfed/store/record"
	"github.com/oscarfed/oscarfed/store/seal"
	"github.com/oscarfed/oscarfed/store/storetest/virtual"
	"github.com/oscarfed/oscarfed/syncer"
	"github.com/oscarfed/oscarfed/syncer/manager"
	"github.com/oscarfed/oscarfed/test/world"
)

const clusterID = "oscar-cluster-a"

const (
	// patience is how long a test waits for an event before it fails.
	patience = 15 * time.Minute
	// never is a period that no test sees the end of.
	never = 1000 * time.Hour
)

// rig is one cluster: etcd, a simulated OSCAR with canaries, and what plays the
// control plane.
type rig struct {
	t *testing.T
	// net has the hosts etcd, controlplane, syncer, oscar, issuer and stranger.
	net      *virtual.Network
	store    *store.Store
	sim      *oscarsim.Sim
	url      string
	identity *seal.Identity
	mirror   *store.Mirror
	feed     *store.Feed
	password string
	canaries []canary
	// before counts the calls that belong to the setting of the scene.
	before map[string]int
}

// canary is something foreign that must be the same at the end of the test.
type canary struct {
	what string
	look func() any
	was  any
}

// newRig is a cluster that nobody works on yet.
func newRig(t *testing.T, cfg oscarsim.Config) *rig {
	t.Helper()
	return newRigOn(t, virtual.NewNetwork(t, embedded.Config{}), cfg)
}

func newRigOn(t *testing.T, n *virtual.Network, cfg oscarsim.Config) *rig {
	t.Helper()
	cfg.ClusterID, cfg.User, cfg.Password = clusterID, "oscar", "canary-admin-password"
	r := &rig{t: t, net: n, sim: oscarsim.New(cfg), identity: newIdentity(t), before: map[string]int{}}
	r.store = r.open("controlplane", store.Config{})
	server := &httptest.Server{Listener: world.Must(n.Host("oscar").Listen(t.Context()))(t), Config: &http.Server{Handler: r.sim.Handler(), ReadHeaderTimeout: time.Minute}}
	server.Start()
	r.url = server.URL
	t.Cleanup(func() {
		r.sim.Kill()
		server.CloseClientConnections()
		server.Close()
	})
	r.password = filepath.Join(t.TempDir(), "password")
	if err := os.WriteFile(r.password, []byte(cfg.Password+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	r.mirror = r.store.NewMirror(store.MirrorConfig{Prefixes: []string{record.ObservedPrefix(clusterID)}, Logger: quiet(t)})
	r.feed = r.mirror.Feed()
	r.run("mirror", r.mirror.Run)

	r.register(record.ClusterActive)

	// The canaries: a foreign service with data, and a foreign bucket.
	r.foreignService("canary", "canary-data")
	r.sim.PutBucket("canary-bucket", "precious/a", "precious/b")
	r.watchBucket("canary-bucket")
	t.Cleanup(r.checkCanaries)
	return r
}

// open connects a host's store, which the end of the test closes.
func (r *rig) open(host string, cfg store.Config) *store.Store {
	r.t.Helper()
	cfg.Logger = quiet(r.t)
	return r.net.Open(r.t, host, cfg)
}

// register registers the cluster, or changes its state.
func (r *rig) register(state record.ClusterState) {
	r.t.Helper()
	r.put(record.DesiredClusterKey(clusterID), record.DesiredCluster{V: 1, ClusterID: clusterID, UID: "registered-first", State: state})
}

func quiet(t *testing.T) *slog.Logger {
	return slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelWarn}))
}

// foreignService makes somebody else's service with a bucket and objects, and
// watches over both.
func (r *rig) foreignService(name, bucket string) {
	r.t.Helper()
	def := fmt.Sprintf(`{"name":%q,"image":"example.org/foreign","script":"true",
		"input":[{"storage_provider":"minio.default","path":"%s/in"}],"output":[{"storage_provider":"minio.default","path":"%s/out"}]}`, name, bucket, bucket)
	if err := r.sim.PutService(def); err != nil {
		r.t.Fatal(err)
	}
	r.sim.PutBucket(bucket, "in/precious")
	r.watch("service "+name, func() any { v, _ := r.sim.Service(name); return v })
	r.watchBucket(bucket)
}

func (r *rig) watchBucket(name string) {
	r.watch("bucket "+name, func() any { v, _ := r.sim.Bucket(name); return v })
}

func (r *rig) watch(what string, look func() any) {
	r.canaries = append(r.canaries, canary{what, look, look()})
}

func (r *rig) checkCanaries() {
	for _, c := range r.canaries {
		if diff := cmp.Diff(c.was, c.look()); diff != "" {
			r.t.Errorf("foreign %s was touched (-before +after):\n%s", c.what, diff)
		}
	}
}

func (r *rig) put(key string, rec any) int64 {
	r.t.Helper()
	res, err := r.store.Update(r.t.Context(), store.Update{Build: func(_ store.View, tx *store.Txn) error {
		tx.Put(key, rec)
		return nil
	}})
	if err != nil {
		r.t.Fatal(err)
	}
	return res.Revision
}

func (r *rig) remove(keys ...string) {
	r.t.Helper()
	if _, err := r.store.Update(r.t.Context(), store.Update{Build: func(_ store.View, tx *store.Txn) error {
		for _, key := range keys {
			tx.Delete(key)
		}
		return nil
	}}); err != nil {
		r.t.Fatal(err)
	}
}

func newIdentity(t *testing.T) *seal.Identity {
	t.Helper()
	id, err := seal.Generate()
	if err != nil {
		t.Fatal(err)
	}
	return id
}

func (r *rig) fault(op oscarsim.Op, kind string, count int) {
	r.t.Helper()
	if err := r.sim.SetFault(oscarsim.Fault{Op: op, Fault: kind, Count: count}); err != nil {
		r.t.Fatal(err)
	}
}

// leave makes a bucket as an earlier life of a service leaves it.
func (r *rig) leave(service, bucket string) {
	r.t.Helper()
	def := fmt.Sprintf(`{"name":%q,"image":"i","script":"s","input":[{"storage_provider":"minio.default","path":"%s/in"}]}`, service, bucket)
	if err := r.sim.PutService(def); err != nil {
		r.t.Fatal(err)
	}
	r.sim.PutBucket(bucket, "in/mine")
	detached := fmt.Sprintf(`{"name":%q,"image":"i","script":"s","owner":"cluster_admin"}`, service)
	r.ask(http.MethodPut, "/system/services", detached)
	r.ask(http.MethodDelete, "/system/services/"+service, "")
	if _, ok := r.sim.Bucket(bucket); !ok {
		r.t.Fatal("the bucket was not left")
	}
	r.before[service] = len(r.calls(service))
}

func (r *rig) deleteBucket(name string) {
	r.ask(http.MethodDelete, "/system/buckets/"+name, "")
}

// ask is somebody else who uses the OSCAR.
func (r *rig) ask(method, path, body string) int {
	r.t.Helper()
	status, err := r.tryAsk(method, path, body)
	if err != nil {
		r.t.Fatal(err)
	}
	return status
}

// tryAsk is ask where no answer may come.
func (r *rig) tryAsk(method, path, body string) (int, error) {
	r.t.Helper()
	req, err := http.NewRequestWithContext(r.t.Context(), method, r.url+path, strings.NewReader(body))
	if err != nil {
		r.t.Fatal(err)
	}
	req.SetBasicAuth("oscar", "canary-admin-password")
	req.Close = true
	resp, err := r.net.Host("stranger").Transport(nil).RoundTrip(req)
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	return resp.StatusCode, nil
}

// forget removes the records of a service, as the control plane does at last.
func (r *rig) forget(p *replica) {
	r.t.Helper()
	r.remove(record.DesiredServiceKey(clusterID, p.name), record.ObservedServiceKey(clusterID, p.name))
}

// observed is the present report, or nil.
func (r *rig) observed(name string) *record.Observed {
	r.t.Helper()
	kv, ok := r.mirror.Snapshot().KV(record.ObservedServiceKey(clusterID, name))
	if !ok {
		return nil
	}
	o, err := store.Decode[record.Observed](kv)
	if err != nil {
		r.t.Fatal(err)
	}
	return o
}

// await waits for a report about the replica as it is desired now.
func (r *rig) await(p *replica, phase record.Phase, match ...func(*record.Observed) bool) *record.Observed {
	r.t.Helper()
	var last *record.Observed
	ctx, cancel := context.WithTimeout(r.t.Context(), patience)
	defer cancel()
	for {
		if last = r.observed(p.name); last != nil && last.UID == p.uid && last.Phase == phase && last.DesiredRevision == p.revision {
			ok := true
			for _, m := range match {
				ok = ok && m(last)
			}
			if ok {
				return last
			}
		}
		if _, err := r.feed.Next(ctx); err != nil {
			got, _ := json.Marshal(last)
			r.t.Fatalf("no report %q about %s at revision %d; last: %s", phase, p.name, p.revision, got)
		}
	}
}

func because(reason record.Reason) func(*record.Observed) bool {
	return func(o *record.Observed) bool { return o.Reason == reason }
}

// eventually looks until ok, with pauses that grow from milliseconds to a second.
func (r *rig) eventually(what string, ok func() bool) {
	r.t.Helper()
	began, pause := time.Now(), 5*time.Millisecond
	for !ok() {
		if time.Since(began) > patience {
			r.t.Fatalf("%s: not within %s", what, patience)
		}
		<-time.After(pause)
		pause = min(pause+pause/10, time.Second)
	}
}

// oscar is a client of the OSCAR, as a syncer on a host has it.
func (r *rig) oscar(host string) *manager.Client {
	r.t.Helper()
	client := world.Must(manager.New(manager.Config{Endpoint: r.url, User: "oscar", PasswordFile: r.password, Transport: r.net.Host(host).Transport(nil)}))(r.t)
	r.t.Cleanup(client.Close)
	return client
}

// config of a syncer on a host, with the product's own periods.
func (r *rig) config(host string) syncer.Config {
	r.t.Helper()
	return syncer.Config{
		ClusterID: clusterID, Store: r.open(host, store.Config{}), OSCAR: r.oscar(host), Identity: r.identity,
		Dial: r.net.Host(host).DialContext, Logger: quiet(r.t),
	}
}

// start runs a syncer until the test ends, or stop is called.
func (r *rig) start(change ...func(*syncer.Config)) (stop func()) {
	r.t.Helper()
	cfg := r.config("syncer")
	for _, c := range change {
		c(&cfg)
	}
	return r.run("syncer", world.Must(syncer.New(cfg))(r.t).Run)
}

// run runs fn until the test ends, or stop is called. Its error is the test's, also that of
// an ordered stop.
func (r *rig) run(what string, fn func(context.Context) error) (stop func()) {
	task := world.Go(context.WithoutCancel(r.t.Context()), fn)
	stop = sync.OnceFunc(func() {
		if err := task.Stop(); err != nil {
			r.t.Errorf("%s: %v", what, err)
		}
	})
	r.t.Cleanup(stop)
	return stop
}

// calls are the writes that reached OSCAR for a service, in order.
func (r *rig) calls(service string) []string {
	var out []string
	for _, c := range r.sim.Log() {
		if c.Service == service {
			out = append(out, c.Op)
		}
	}
	return out[r.before[service]:]
}

// queued reads how many services wait for a write.
func queued(t *testing.T, registry *prometheus.Registry) float64 {
	t.Helper()
	return gauge(t, registry, "oscarfed_syncer_write_queue")
}

// gauge reads a metric; 0 without it.
func gauge(t *testing.T, registry *prometheus.Registry, name string) float64 {
	t.Helper()
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() == name {
			return f.GetMetric()[0].GetGauge().GetValue()
		}
	}
	return 0
}

func (r *rig) equalCalls(service string, want ...string) {
	r.t.Helper()
	if got := r.calls(service); !slices.Equal(got, want) {
		r.t.Errorf("calls for %s: %v, want %v", service, got, want)
	}
}
