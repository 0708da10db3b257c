package syncer_test

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/oscarfed/oscarfed/api/oscar"
	"github.com/oscarfed/oscarfed/internal/oscarsim"
	"github.com/oscarfed/oscarfed/store"
	"github.com/oscarfed/oscarfed/store/record"
	"github.com/oscarfed/oscarfed/store/seal"
	"github.com/oscarfed/oscarfed/store/storetest"
	"github.com/oscarfed/oscarfed/syncer"
	"github.com/oscarfed/oscarfed/syncer/manager"
)

const clusterID = "oscar-cluster-a"

// patience is how long a test waits for an event before it fails.
const patience = 30 * time.Second

// rig is one cluster: etcd, a simulated OSCAR with canaries, and what plays the
// control plane.
type rig struct {
	t        *testing.T
	endpoint string
	store    *store.Store
	sim      *oscarsim.Sim
	server   *httptest.Server
	identity *seal.Identity
	// identityFile holds the identity, for a syncer that is another process.
	identityFile string
	mirror       *store.Mirror
	feed         *store.Feed
	password     string
	canaries     []canary
	// before counts the calls that belong to the setting of the scene.
	before map[string]int
}

// canary is something foreign that must be the same at the end of the test.
type canary struct {
	what string
	look func() any
	was  any
}

func newRig(t *testing.T, cfg oscarsim.Config) *rig {
	t.Helper()
	t.Parallel()
	cfg.ClusterID, cfg.User, cfg.Password = clusterID, "oscar", "canary-admin-password"
	r := &rig{t: t, endpoint: storetest.Etcd(t), sim: oscarsim.New(cfg), before: map[string]int{}}
	r.store = storetest.Open(t, store.Config{Endpoints: []string{r.endpoint}, Logger: quiet(t)})
	r.server = httptest.NewServer(r.sim.Handler())
	t.Cleanup(func() {
		r.sim.Kill()
		r.server.CloseClientConnections()
		r.server.Close()
	})
	var err error
	r.identityFile = filepath.Join(t.TempDir(), "identity")
	if r.identity, err = seal.LoadOrCreate(r.identityFile); err != nil {
		t.Fatal(err)
	}
	r.password = filepath.Join(t.TempDir(), "password")
	if err := os.WriteFile(r.password, []byte(cfg.Password+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	r.mirror = r.store.NewMirror(store.MirrorConfig{Prefixes: []string{record.ObservedPrefix(clusterID)}, Logger: quiet(t)})
	r.feed = r.mirror.Feed()
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := r.mirror.Run(ctx); err != nil {
			t.Errorf("mirror: %v", err)
		}
	}()
	t.Cleanup(func() { cancel(); <-done })

	r.register(record.ClusterActive)

	// The canaries: a foreign service with data, and a foreign bucket.
	r.foreignService("canary", "canary-data")
	r.sim.PutBucket("canary-bucket", "precious/a", "precious/b")
	r.watchBucket("canary-bucket")
	t.Cleanup(r.checkCanaries)
	return r
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

// replica is one life of a service that the test desires.
type replica struct {
	name        string
	uid         string
	generation  int64
	token       string
	coordinator bool
	image       string
	buckets     []string // default: one named as the service
	secret      string
	left        []string
	leftBy      []string // default: the service itself, if anything is left
	owner       string
	cpu         string
	drift       string
	extra       map[string]any
	origin      *record.OriginStorage
	volumeStays bool
	desired     record.Desired
	revision    int64
}

func newReplica(name string) *replica {
	return &replica{
		name: name, uid: uuid.Must(uuid.NewV7()).String(), generation: 1,
		token:       hex.EncodeToString([]byte(strings.ReplaceAll(uuid.NewString(), "-", ""))),
		coordinator: true, image: "ghcr.io/grycap/imagemagick", buckets: []string{name},
		secret: "hush-" + uuid.NewString(), owner: oscar.OwnerAdmin, drift: "enforce", cpu: "0.5",
	}
}

// service is the definition as the control plane renders it, without secrets.
func (p *replica) service() map[string]any {
	topology := "none"
	annotations := map[string]string{
		oscar.AnnotationWorker: "true", oscar.AnnotationUID: p.uid,
		oscar.AnnotationGeneration: strconv.FormatInt(p.generation, 10), oscar.AnnotationControlPlane: "cp",
	}
	if !p.coordinator {
		topology = "mesh"
		annotations[oscar.AnnotationOriginCluster] = "oscar-cluster-z"
		annotations[oscar.AnnotationOriginService] = "origin"
	}
	in, out := []any{}, []any{}
	for _, b := range p.buckets {
		in = append(in, map[string]any{"storage_provider": "minio.default", "path": b + "/in"})
		out = append(out, map[string]any{"storage_provider": "minio.default", "path": "/" + b + "/out/"})
	}
	s := map[string]any{
		"name": p.name, "cluster_id": clusterID, "image": p.image, "cpu": p.cpu, "memory": "0.5Gi",
		"script": "#!/bin/sh\r\necho hi\n", "annotations": annotations, "input": in, "output": out, "log_level": "debug",
		"federation":  map[string]any{"group_id": "g", "topology": topology, "delegation": "static", "members": []any{}},
		"environment": map[string]any{"variables": map[string]any{"A": "1"}, "secrets": map[string]any{"KEY": ""}},
		"x_unknown":   map[string]any{"kept": true},
	}
	maps.Copy(s, p.extra)
	return s
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
	req, err := http.NewRequestWithContext(r.t.Context(), method, r.server.URL+path, strings.NewReader(body))
	if err != nil {
		r.t.Fatal(err)
	}
	req.SetBasicAuth("oscar", "canary-admin-password")
	resp, err := r.server.Client().Do(req)
	if err != nil {
		r.t.Fatal(err)
	}
	defer resp.Body.Close()
	return resp.StatusCode
}

// stage writes the spec of a replica, once.
func (r *rig) stage(p *replica) (name string) {
	r.t.Helper()
	spec := record.SpecName(p.name, p.uid, p.generation)
	service, err := json.Marshal(p.service())
	if err != nil {
		r.t.Fatal(err)
	}
	patch := fmt.Sprintf(`{"token":%q,"environment":{"secrets":{"KEY":%q}}}`, p.token, p.secret)
	sealed, err := seal.Seal(seal.Header{Purpose: "spec", Cluster: clusterID, UID: p.uid, Generation: p.generation}, []byte(patch), r.identity.Recipient())
	if err != nil {
		r.t.Fatal(err)
	}
	if _, err := r.store.Get(r.t.Context(), record.SpecKey(clusterID, spec)); err != nil {
		by := p.leftBy
		if len(p.left) > 0 {
			by = append(by, p.name)
		}
		r.put(record.SpecKey(clusterID, spec), record.Spec{V: 1, Service: service, Sealed: sealed, Left: p.left, LeftBy: by, Origin: p.origin, VolumeGoes: !p.volumeStays})
	}
	return spec
}

// wantTogether writes the desired records of several replicas in one transaction.
func (r *rig) wantTogether(all []*replica, intent record.Intent) {
	r.t.Helper()
	for _, p := range all {
		r.order(p, intent)
	}
	res, err := r.store.Update(r.t.Context(), store.Update{Build: func(_ store.View, tx *store.Txn) error {
		for _, p := range all {
			tx.Put(record.DesiredServiceKey(clusterID, p.name), p.desired)
		}
		return nil
	}})
	if err != nil {
		r.t.Fatal(err)
	}
	for _, p := range all {
		p.revision = res.Revision
	}
}

// want writes spec and desired record.
func (r *rig) want(p *replica, intent record.Intent, change ...func(*record.Desired)) {
	r.t.Helper()
	r.order(p, intent, change...)
	p.revision = r.put(record.DesiredServiceKey(clusterID, p.name), p.desired)
}

// order makes the desired record of a replica.
func (r *rig) order(p *replica, intent record.Intent, change ...func(*record.Desired)) {
	r.t.Helper()
	spec := r.stage(p)
	p.desired = record.Desired{V: 1, Intent: intent, Federation: "fed", GroupID: "g", UID: p.uid, Generation: p.generation,
		RequestID: uuid.NewString(), Owner: p.owner, Drift: p.drift, Spec: spec, Mark: record.Mark(p.token)}
	if intent == record.IntentPrepare || intent == record.IntentApply {
		p.desired.Deadline = new(record.At(time.Now().Add(time.Minute)))
	}
	if intent == record.IntentDelete {
		p.desired.Spec, p.desired.Drift = "", ""
	}
	for _, c := range change {
		c(&p.desired)
	}
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

// eventually looks until ok, at every change of a simulated OSCAR and a little after.
func (r *rig) eventually(what string, ok func() bool) {
	r.t.Helper()
	deadline := time.Now().Add(patience)
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		if time.Now().After(deadline) {
			r.t.Fatalf("%s: not within %s", what, patience)
		}
		<-tick.C
	}
}

// config of a syncer with short waits.
func (r *rig) config() syncer.Config {
	r.t.Helper()
	client, err := manager.New(manager.Config{Endpoint: r.server.URL, User: "oscar", PasswordFile: r.password,
		ReadTimeout: 2 * time.Second, Transport: &http.Transport{MaxIdleConnsPerHost: 8}})
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(client.Close)
	return syncer.Config{
		ClusterID: clusterID, Store: r.store, OSCAR: client, Identity: r.identity,
		Resync: 300 * time.Millisecond, SessionTTL: 5 * time.Second, LateWindow: 3 * time.Second,
		WriteTimeout: time.Second, RetryPause: 50 * time.Millisecond, StopGrace: time.Second, Logger: quiet(r.t),
	}
}

// start runs a syncer until the test ends, or stop is called.
func (r *rig) start(change ...func(*syncer.Config)) (stop func()) {
	r.t.Helper()
	cfg := r.config()
	for _, c := range change {
		c(&cfg)
	}
	s, err := syncer.New(cfg)
	if err != nil {
		r.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(r.t.Context()))
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := s.Run(ctx); err != nil {
			r.t.Errorf("syncer: %v", err)
		}
	}()
	stopped := false
	stop = func() {
		if !stopped {
			stopped = true
			cancel()
			<-done
		}
	}
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
