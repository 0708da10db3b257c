package faults_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/oscarfed/oscarfed/api/client"
	"github.com/oscarfed/oscarfed/api/oscar"
	v1 "github.com/oscarfed/oscarfed/api/v1"
	"github.com/oscarfed/oscarfed/internal/oscarsim"
	"github.com/oscarfed/oscarfed/store"
	"github.com/oscarfed/oscarfed/store/record"
	"github.com/oscarfed/oscarfed/store/storetest"
	"github.com/oscarfed/oscarfed/test/invariants"
	"github.com/oscarfed/oscarfed/test/process"
)

// patience is how long a request and what follows from it may take. Nothing takes as
// long unless it hangs.
const patience = 2 * time.Minute

const (
	user     = "oscar"
	password = "not-a-real-password"
)

var clusterIDs = []string{"oscar-cluster-a", "oscar-cluster-b", "oscar-cluster-c"}

// services are the replicas of the federation under test, in the order of clusterIDs.
var services = []string{"crash0", "crash1", "crash2"}

const definition = `{"name":"crash0","cluster_id":"oscar-cluster-a","image":"ghcr.io/grycap/imagemagick","script":"#!/bin/sh\n",
"environment":{"secrets":{"KEY":"secret-value-of-the-test"}},
"federation":{"topology":"mesh","members":[
{"type":"oscar","cluster_id":"oscar-cluster-b","service_name":"crash1"},
{"type":"oscar","cluster_id":"oscar-cluster-c","service_name":"crash2"}]},
"input":[{"storage_provider":"minio.default","path":"crash0/in"}],"output":[{"storage_provider":"minio.default","path":"crash0/out"}]}`

// federation is three simulated OSCARs in this process, and the control plane and
// the syncers as processes of their own.
type federation struct {
	// t is the running (sub)test; root ends the processes when it ends.
	t, root   testing.TB
	endpoints string
	// users are how an etcd that has users is reached; nil for one that has none.
	users    *users
	store    *store.Store
	sims     map[string]*oscarsim.Sim
	urls     map[string]string
	syncers  map[string]*process.Child
	identity map[string]string
	password string
	cp       *process.Child
	api      *client.Client
	// key stands before every Idempotency-Key.
	key string
	// ahead is how far the clock of each cluster's syncer is ahead, and that of the next
	// control plane under no name.
	ahead map[string]time.Duration
}

func newFederation(t testing.TB) *federation {
	t.Helper()
	etcd := storetest.Etcd(t)
	invariants.Guard(t, etcd, invariants.Options{Fenced: true, Secrets: []string{"secret-value-of-the-test"}})
	return federate(t, etcd, storetest.Open(t, store.Config{Endpoints: []string{etcd}}))
}

func federate(t testing.TB, endpoints string, st *store.Store) *federation {
	t.Helper()
	return federateWith(t, endpoints, st, nil)
}

func federateWith(t testing.TB, endpoints string, st *store.Store, users *users) *federation {
	t.Helper()
	return federateAt(t, endpoints, st, users, nil)
}

// federateAt gives each process a wrong clock of its own.
func federateAt(t testing.TB, endpoints string, st *store.Store, users *users, ahead map[string]time.Duration) *federation {
	t.Helper()
	f := &federation{
		t: t, root: t, endpoints: endpoints, users: users, store: st, sims: map[string]*oscarsim.Sim{}, urls: map[string]string{},
		syncers: map[string]*process.Child{}, identity: map[string]string{}, password: writeFile(t, "password", password),
		ahead: ahead,
	}
	var sims []*oscarsim.Sim
	for _, id := range clusterIDs {
		sim := oscarsim.New(oscarsim.Config{ClusterID: id, User: user, Password: password})
		server := httptest.NewServer(sim.Handler())
		t.Cleanup(func() {
			sim.Kill()
			server.CloseClientConnections()
			server.Close()
		})
		f.sims[id], f.urls[id] = sim, server.URL
		f.identity[id] = t.TempDir() + "/identity.age"
		sims = append(sims, sim)
	}
	f.identity[""] = writeIdentity(t)
	invariants.PlantCanaries(t, append(slices.Clone(services), "taken0", "taken1", "taken2"), sims...)
	f.startControlPlane("")
	for _, id := range clusterIDs {
		if _, err := f.api.RegisterCluster(t.Context(), v1.ClusterSpec{ClusterID: id, Endpoint: f.urls[id]}); err != nil {
			t.Fatal(err)
		}
		f.startSyncer(id, "")
	}
	for _, id := range clusterIDs {
		f.awaitSyncer(id)
	}
	return f
}

// startControlPlane starts the (only) control plane, to die at failAt.
func (f *federation) startControlPlane(failAt string) {
	f.t.Helper()
	f.cp, f.api = f.instance(failAt)
}

// instance starts one control plane. There is no client of one that died at failAt before
// it was ready.
func (f *federation) instance(failAt string) (*process.Child, *client.Client) {
	f.t.Helper()
	c := process.StartAhead(f.root, process.ControlPlane, failAt, f.ahead[""], append(f.users.controlPlane(), "--listen=127.0.0.1:0", "--metrics-listen=", "--etcd-endpoints="+f.endpoints,
		"--identity-file="+f.identity[""], "--data-dir="+f.root.TempDir(), "--admin-password-file="+f.password, "--rate-limit=0",
		"--default-cluster="+clusterIDs[0], "--prepare-deadline=1m", "--apply-grace=1m", "--log-level=debug")...)
	line, err := c.Ready()
	if err != nil {
		if failAt != "" && c.Killed(patience) {
			return c, nil // it met its fail point before anybody could ask it
		}
		f.t.Fatal(err)
	}
	address := "http://" + strings.TrimPrefix(line, "oscar-controlplane: API on ")
	if f.users != nil {
		f.users.api = address
	}
	api, err := client.New(client.Config{Endpoint: address, User: user, Password: password, Tries: 1})
	if err != nil {
		f.t.Fatal(err)
	}
	return c, api
}

// startSyncer starts the syncer of a cluster, to die at failAt.
func (f *federation) startSyncer(id, failAt string, more ...string) {
	etcd := []string{"--etcd-endpoints=" + f.endpoints}
	if f.users != nil {
		etcd = f.users.join(f, id)
	}
	f.syncers[id] = process.StartAhead(f.root, process.Syncer, failAt, f.ahead[id], append(append(more, etcd...), "--cluster-id="+id, "--metrics-listen=",
		"--oscar-endpoint="+f.urls[id], "--oscar-user="+user, "--oscar-password-file="+f.password,
		"--identity-file="+f.identity[id], "--resync=500ms", "--session-ttl=2s", "--late-window=2s", "--log-level=debug")...)
}

// removeCluster takes a cluster out of the federation.
func (f *federation) removeCluster(id string, opts client.RemoveClusterOptions) error {
	ctx, cancel := context.WithTimeout(f.t.Context(), patience)
	defer cancel()
	opts.Wait = patience - 10*time.Second
	res, err := f.api.RemoveCluster(ctx, id, opts)
	if err == nil && res.Cluster != nil {
		return errors.New("the cluster is not removed yet")
	}
	return err
}

// reregister registers a removed cluster again, as the machine that it was.
func (f *federation) reregister(id string) {
	f.t.Helper()
	f.eventually("nothing is left below the prefix of "+id, func() bool {
		items, err := f.store.ListKeys(f.t.Context(), record.ClusterTreePrefix+id+"/")
		return err == nil && len(items) == 0
	})
	reg, err := f.api.RegisterCluster(f.t.Context(), v1.ClusterSpec{ClusterID: id, Endpoint: f.urls[id]})
	f.must(err)
	f.syncers[id].Stop()
	f.startSyncer(id, "", "--accept-cluster-uid="+reg.UID)
	f.awaitSyncer(id)
}

func (f *federation) awaitSyncer(id string) {
	f.t.Helper()
	f.eventually("the syncer of "+id+" is connected", func() bool {
		_, err := f.store.Get(f.t.Context(), record.SessionKey(id))
		if err != nil {
			return false
		}
		kv, err := f.store.Get(f.t.Context(), record.ObservedClusterKey(id))
		if err != nil {
			return false
		}
		o, err := store.Decode[record.ObservedCluster](kv)
		return err == nil && o.Recipient != ""
	})
}

func (f *federation) eventually(what string, ok func() bool) {
	f.t.Helper()
	limit := time.After(patience)
	for !ok() {
		select {
		case <-time.After(20 * time.Millisecond):
		case <-limit:
			f.t.Fatalf("it never came true: %s", what)
		}
	}
}

// create sends the definition; the answer is nil, or an error with its code.
func (f *federation) create(key string) error {
	s, violations := oscar.ParseService([]byte(definition))
	if len(violations) > 0 {
		f.t.Fatal(violations)
	}
	ctx, cancel := context.WithTimeout(f.t.Context(), patience)
	defer cancel()
	_, err := f.api.CreateService(ctx, s, client.CreateOptions{IdempotencyKey: f.key + "/" + key, Wait: patience - 10*time.Second})
	return err
}

func (f *federation) remove() error { return f.removeAll("") }

// removeAll deletes the federation; data is delete when its buckets shall go.
func (f *federation) removeAll(data string) error {
	ctx, cancel := context.WithTimeout(f.t.Context(), patience)
	defer cancel()
	_, err := f.api.DeleteService(ctx, services[0], client.DeleteOptions{Data: data, Wait: patience - 10*time.Second})
	return err
}

// deleteDirectly is somebody's DELETE at an OSCAR, behind the federation's back.
func deleteDirectly(t testing.TB, url string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodDelete, url, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	req.SetBasicAuth(user, password)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusNoContent && resp.StatusCode != http.StatusNotFound {
		t.Fatalf("DELETE %s: %s", url, resp.Status)
	}
}

// forget takes away the buckets that earlier lives left, so that the next
// creation makes its own.
func (f *federation) forget() {
	f.t.Helper()
	for _, id := range clusterIDs {
		deleteDirectly(f.t, f.urls[id]+"/system/buckets/"+services[0])
	}
}

// noAnswer is the code of a request that nobody answered.
const noAnswer = "none"

// code is that of the API's answer: empty for success, noAnswer when there was none.
func code(err error) string {
	var e *client.Error
	switch {
	case err == nil:
		return ""
	case errors.As(err, &e) && e.Code() != "":
		return e.Code()
	}
	return noAnswer
}

// present lists the clusters that have their replica.
func (f *federation) present() []string {
	var out []string
	for i, id := range clusterIDs {
		if slices.Contains(f.sims[id].Services(), services[i]) {
			out = append(out, id)
		}
	}
	return out
}

// quiet waits until nothing is in flight and no tombstone waits.
func (f *federation) quiet() {
	f.t.Helper()
	f.eventually("nothing is in flight", f.isQuiet)
}

// isQuiet says whether nothing is in flight and no tombstone waits.
func (f *federation) isQuiet() bool {
	items, _, err := f.store.List(f.t.Context(), record.FederationsPrefix)
	if err != nil {
		return false
	}
	for _, kv := range items {
		fed, err := store.Decode[record.Federation](kv)
		if err != nil || fed.Phase.InFlight() || fed.Phase == record.PhaseDeleting {
			return false
		}
	}
	items, _, err = f.store.List(f.t.Context(), record.ClusterTreePrefix)
	if err != nil {
		return false
	}
	for _, kv := range items {
		if record.ParseKey(kv.Key).Kind == record.KindDesiredService {
			d, err := store.Decode[record.Desired](kv)
			if err != nil || d.Tombstone() {
				return false
			}
		}
	}
	return true
}
