package controlplane_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/oscarfed/oscarfed/api/oscar"
	"github.com/oscarfed/oscarfed/controlplane"
	"github.com/oscarfed/oscarfed/controlplane/clusters"
	"github.com/oscarfed/oscarfed/controlplane/fault"
	"github.com/oscarfed/oscarfed/controlplane/federations"
	"github.com/oscarfed/oscarfed/controlplane/identity"
	"github.com/oscarfed/oscarfed/store"
	"github.com/oscarfed/oscarfed/store/embedded"
	"github.com/oscarfed/oscarfed/store/record"
	"github.com/oscarfed/oscarfed/store/seal"
	"github.com/oscarfed/oscarfed/store/storetest"
	"github.com/oscarfed/oscarfed/store/storetest/virtual"
	"github.com/oscarfed/oscarfed/test/invariants"
)

// patience is how long a test waits for what comes, unless it hangs.
const patience = time.Hour

var admin = identity.Caller{Subject: identity.Admin, Administrator: true}

// world is a control plane over an etcd on a network in memory, with fake syncers for clusters.
type world struct {
	*controlplane.ControlPlane
	t        *testing.T
	net      *virtual.Network
	store    *store.Store
	identity *seal.Identity
	clusters map[string]*fakeSyncer
	// stop ends the control plane that the world began with.
	stop func()
	// parts says that the syncers of clusters that are added read parts.
	parts bool
}

// newWorld starts a control plane with clusters a, b and c that do as they are told.
func newWorld(t *testing.T, mutate ...func(*controlplane.Config)) *world {
	t.Helper()
	w := emptyWorld(t, embedded.Config{})
	w.start(mutate...)
	return w
}

// emptyWorld has an etcd, and no control plane.
func emptyWorld(t *testing.T, cfg embedded.Config) *world {
	t.Helper()
	n := virtual.NewNetwork(t, cfg)
	return &world{t: t, net: n, store: n.Open(t, "controlplane", store.Config{}), identity: newIdentity(t), clusters: map[string]*fakeSyncer{}}
}

// start starts the control plane, and clusters a, b and c.
func (w *world) start(mutate ...func(*controlplane.Config)) {
	w.t.Helper()
	w.ControlPlane, w.stop = startStoppable(w.t, w.store, w.identity, mutate...)
	for _, id := range []string{"a", "b", "c"} {
		w.addCluster(id)
	}
}

// guard has every revision checked when the test is over.
func (w *world) guard(secrets ...string) {
	w.t.Helper()
	invariants.Guard(w.t, w.net.Etcd.Endpoint(), invariants.Options{
		Secrets: secrets, Connect: func(c *store.Config) { w.net.Reach("guard", c) },
	})
}

func newIdentity(t *testing.T) *seal.Identity {
	t.Helper()
	id, err := seal.Generate()
	if err != nil {
		t.Fatal(err)
	}
	return id
}

func startControlPlane(t *testing.T, st *store.Store, id *seal.Identity, mutate ...func(*controlplane.Config)) *controlplane.ControlPlane {
	t.Helper()
	cp, _ := startStoppable(t, st, id, mutate...)
	return cp
}

func startStoppable(t *testing.T, st *store.Store, id *seal.Identity, mutate ...func(*controlplane.Config)) (cp *controlplane.ControlPlane, stop func()) {
	t.Helper()
	cfg := controlplane.Config{Store: st, Identity: id, DefaultCluster: "a", Logger: storetest.Logger(t)}
	for _, m := range mutate {
		m(&cfg)
	}
	cp, err := controlplane.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	stop = runUntilEnd(t, func(ctx context.Context) {
		if err := cp.Run(ctx); err != nil {
			t.Error(err)
		}
	})
	select {
	case <-cp.Ready():
	case <-time.After(patience):
		t.Fatal("the control plane was never ready")
	}
	return cp, stop
}

// runUntilEnd runs fn beside the test and waits for it at its end.
func runUntilEnd(t *testing.T, fn func(context.Context)) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	done := make(chan struct{})
	go func() {
		defer close(done)
		fn(ctx)
	}()
	stop = sync.OnceFunc(func() {
		cancel()
		<-done
	})
	t.Cleanup(stop)
	return stop
}

func (w *world) addCluster(id string) *fakeSyncer {
	w.t.Helper()
	p := &fakeSyncer{t: w.t, store: w.store, cluster: id, identity: newIdentity(w.t), answer: yes, parts: w.parts}
	w.clusters[id] = p
	if _, err := w.Clusters.Register(w.t.Context(), admin, clusters.Spec{ClusterID: id, Endpoint: "https://" + id + ".example.org", SSLVerify: true}); err != nil {
		w.t.Fatal(err)
	}
	_, err := w.store.Update(w.t.Context(), store.Update{Build: func(_ store.View, tx *store.Txn) error {
		tx.Put(record.ObservedClusterKey(id), record.ObservedCluster{V: record.Version, Recipient: p.identity.Recipient(), OscarVersion: "v4.1.2"})
		return nil
	}})
	if err != nil {
		w.t.Fatal(err)
	}
	p.connect()
	runUntilEnd(w.t, p.run)
	if err := w.Clusters.Await(w.t.Context(), id); err != nil {
		w.t.Fatal(err)
	}
	return p
}

// body is a mesh over a, b and c.
const body = `{` + definition

// usersBody is body as a user may submit it: his federation needs his refresh token.
const usersBody = `{"environment":{"secrets":{"refresh_token":"a-refresh-token"}},` + definition

const definition = `"name":"grayifyr0","image":"ghcr.io/grycap/imagemagick","cpu":"0.5","memory":"0.5Gi","script":"#!/bin/sh\n",
"federation":{"topology":"mesh","delegation":"random","members":[
{"type":"oscar","cluster_id":"b","service_name":"grayifyr1"},{"type":"oscar","cluster_id":"c","service_name":"grayifyr2"}]},
"input":[{"storage_provider":"minio.default","path":"grayifyr0/in"}],"output":[{"storage_provider":"minio.default","path":"grayifyr0/out"}]}`

func send(t *testing.T, body string, mutate ...func(*federations.CreateRequest)) federations.CreateRequest {
	t.Helper()
	s, violations := oscar.ParseService([]byte(body))
	if len(violations) > 0 {
		t.Fatal(violations)
	}
	req := federations.CreateRequest{Service: s, Body: []byte(body), Wait: time.Minute}
	for _, m := range mutate {
		m(&req)
	}
	return req
}

func (w *world) create(mutate ...func(*federations.CreateRequest)) (*federations.CreateResult, error) {
	w.t.Helper()
	return w.Federations.CreateService(w.t.Context(), admin, send(w.t, body, mutate...))
}

func codeOf(t *testing.T, err error) fault.Code {
	t.Helper()
	var e *fault.Error
	if !errors.As(err, &e) {
		t.Fatalf("no error of the control plane: %v", err)
	}
	return e.Code
}

// keys lists what stands below a prefix.
func (w *world) keys(prefix string) []string {
	w.t.Helper()
	items, err := w.store.ListKeys(w.t.Context(), prefix)
	if err != nil {
		w.t.Fatal(err)
	}
	out := []string{}
	for _, kv := range items {
		out = append(out, kv.Key)
	}
	return out
}
