package faults_test

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/oscarfed/oscarfed/api/client"
	"github.com/oscarfed/oscarfed/api/oscar"
	v1 "github.com/oscarfed/oscarfed/api/v1"
	"github.com/oscarfed/oscarfed/store"
	"github.com/oscarfed/oscarfed/store/record"
	"github.com/oscarfed/oscarfed/store/storetest"
	"github.com/oscarfed/oscarfed/test/await"
	"github.com/oscarfed/oscarfed/test/invariants"
	"github.com/oscarfed/oscarfed/test/process"
	"github.com/oscarfed/oscarfed/test/world"
)

// user and password are those of the administrator, of the API and of every OSCAR.
const (
	user     = process.User
	password = process.Password
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

// first and second are control planes. Most tests have only the first.
var first, second = process.ControlPlaneName(0), process.ControlPlaneName(1)

// setup is what a federation of processes works over.
type setup struct {
	endpoints []string
	store     *store.Store
	// users are how an etcd that has users is reached; nil for one that has none.
	users *users
	// ahead is how far the clock of each program is ahead.
	ahead map[string]time.Duration
}

// federation is three simulated OSCARs in this process, and the control plane and
// the syncers as processes of their own.
type federation struct {
	*process.Federation
	// t is the running (sub)test; the processes end with the test that began.
	t     testing.TB
	store *store.Store
	// api is the control plane that is asked.
	api *client.Client
	// key stands before every Idempotency-Key.
	key string
}

func newFederation(t testing.TB) *federation {
	t.Helper()
	etcd := storetest.Etcd(t)
	invariants.Guard(t, etcd, invariants.Options{Fenced: true, Secrets: []string{"secret-value-of-the-test"}})
	return federate(t, setup{endpoints: []string{etcd}, store: storetest.Open(t, store.Config{Endpoints: []string{etcd}})})
}

func federate(t testing.TB, s setup) *federation {
	t.Helper()
	f := &federation{t: t, store: s.store}
	etcd := "--etcd-endpoints=" + strings.Join(s.endpoints, ",")
	f.Federation = process.New(t, process.Config{
		Clusters: clusterIDs, Canaries: append(slices.Clone(services), "taken0", "taken1", "taken2"), Store: s.store, Ahead: s.ahead,
		Flags: func(program string) []string {
			ofSyncer := slices.Contains(clusterIDs, program)
			switch {
			case ofSyncer && s.users != nil:
				return append(s.users.join(f, program), "--resync=500ms")
			case ofSyncer:
				return []string{etcd, "--resync=500ms"}
			}
			return append(s.users.controlPlane(), etcd, "--prepare-deadline=1m", "--apply-grace=1m")
		},
	})
	f.must(f.Start(t.Context(), 1))
	f.api = f.API(first)
	return f
}

// startControlPlane starts one more.
func (f *federation) startControlPlane(name string) *client.Client {
	f.t.Helper()
	api, err := f.StartControlPlane(f.t.Context(), name, "")
	f.must(err)
	return api
}

// removeCluster takes a cluster out of the federation.
func (f *federation) removeCluster(id string, opts client.RemoveClusterOptions) error {
	ctx, cancel := context.WithTimeout(f.t.Context(), limit)
	defer cancel()
	opts.Wait = limit - 10*time.Second
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
	reg, err := f.api.RegisterCluster(f.t.Context(), v1.ClusterSpec{ClusterID: id, Endpoint: f.URL(id)})
	f.must(err)
	f.must(f.Child(id).Stop())
	f.must(f.StartSyncer(id, "", "--accept-cluster-uid="+reg.UID))
	f.must(f.AwaitSyncer(f.t.Context(), id))
}

func (f *federation) eventually(what string, ok func() bool) {
	f.t.Helper()
	await.Until(f.t, what, ok)
}

// service is that of the definition.
func (f *federation) service() *oscar.Service {
	f.t.Helper()
	return world.Service(f.t, definition)
}

// create sends the definition; the answer is nil, or an error with its code.
func (f *federation) create(key string) error {
	ctx, cancel := context.WithTimeout(f.t.Context(), limit)
	defer cancel()
	_, err := f.api.CreateService(ctx, f.service(), client.CreateOptions{IdempotencyKey: f.key + "/" + key, Wait: limit - 10*time.Second})
	return err
}

func (f *federation) remove() error { return f.removeAll("") }

// removeAll deletes the federation; data is delete when its buckets shall go.
func (f *federation) removeAll(data string) error {
	ctx, cancel := context.WithTimeout(f.t.Context(), limit)
	defer cancel()
	_, err := f.api.DeleteService(ctx, services[0], client.DeleteOptions{Data: data, Wait: limit - 10*time.Second})
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
		deleteDirectly(f.t, f.URL(id)+"/system/buckets/"+services[0])
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
		if slices.Contains(f.Sim(id).Services(), services[i]) {
			out = append(out, id)
		}
	}
	return out
}

// quiet waits until nothing is in flight and no tombstone waits.
func (f *federation) quiet() {
	f.t.Helper()
	f.must(f.AwaitSettled(f.t.Context()))
}
