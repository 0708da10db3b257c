package controlplane_test

import (
	"context"
	"encoding/json"
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
	"github.com/oscarfed/oscarfed/store/record"
	"github.com/oscarfed/oscarfed/store/seal"
	"github.com/oscarfed/oscarfed/store/storetest"
)

// patience is how long a test waits for what comes at once, unless it hangs.
const patience = time.Minute

var admin = identity.Caller{Subject: identity.Admin, Administrator: true}

// fakeSyncer is a cluster whose syncer does what a test says. It writes the records
// that a syncer would, through the real store.
type fakeSyncer struct {
	t        *testing.T
	store    *store.Store
	cluster  string
	identity *seal.Identity
	session  *store.Session

	mu     sync.Mutex
	answer func(service string, d *record.Desired) *record.Observed
}

// yes does everything that is asked.
func yes(_ string, d *record.Desired) *record.Observed {
	switch d.Intent {
	case record.IntentPrepare:
		return &record.Observed{Phase: record.PhasePrepared, Vote: &record.Vote{Answer: record.VoteYes}}
	case record.IntentApply:
		return &record.Observed{Phase: record.PhaseReady, Reason: record.ReasonApplied}
	case record.IntentDelete:
		return &record.Observed{Phase: record.PhaseDeleted, Reason: record.ReasonDeleted, Operation: "delete"}
	}
	return nil
}

// no refuses in the vote.
func no(reason record.Reason) func(string, *record.Desired) *record.Observed {
	return func(service string, d *record.Desired) *record.Observed {
		if d.Intent == record.IntentPrepare {
			return &record.Observed{Phase: record.PhaseRefused, Reason: reason, Message: "refused by the test",
				Vote: &record.Vote{Answer: record.VoteNo}}
		}
		return yes(service, d)
	}
}

func silent(string, *record.Desired) *record.Observed { return nil }

// failing votes yes and then cannot apply.
func failing(service string, d *record.Desired) *record.Observed {
	if d.Intent == record.IntentApply {
		return &record.Observed{Phase: record.PhaseFailed, Reason: record.ReasonCreateFailed, Operation: "create", Status: 500, Message: "broken by the test"}
	}
	o := yes(service, d)
	if d.Intent == record.IntentDelete {
		o.Operation = ""
	}
	return o
}

func (p *fakeSyncer) does(answer func(string, *record.Desired) *record.Observed) {
	p.mu.Lock()
	p.answer = answer
	p.mu.Unlock()
	p.lookAgain()
}

// lookAgain answers everything that is asked of the cluster now.
func (p *fakeSyncer) lookAgain() {
	items, _, err := p.store.List(p.t.Context(), record.DesiredServicesPrefix(p.cluster))
	if err != nil {
		p.t.Error(err)
		return
	}
	for _, kv := range items {
		p.act(p.t.Context(), kv)
	}
}

func (p *fakeSyncer) act(ctx context.Context, kv store.KV) {
	d, err := store.Decode[record.Desired](kv)
	if err != nil {
		p.t.Error(err)
		return
	}
	ref := record.ParseKey(kv.Key)
	p.mu.Lock()
	o := p.answer(ref.Name, d)
	p.mu.Unlock()
	if o == nil {
		return
	}
	p.report(ctx, ref.Name, kv.ModRevision, d, *o)
}

func (p *fakeSyncer) report(ctx context.Context, service string, revision int64, d *record.Desired, o record.Observed) {
	key := record.ObservedServiceKey(p.cluster, service)
	o.V, o.UID, o.DesiredRevision, o.LastTransitionTime = record.Version, d.UID, revision, record.At(time.Now())
	if o.Vote != nil {
		v := *o.Vote
		v.Revision = revision
		o.Vote = &v
	} else {
		o.ObservedGeneration = d.Generation
	}
	_, err := p.store.Update(ctx, store.Update{Keys: []string{key, record.DesiredServiceKey(p.cluster, service)},
		Build: func(v store.View, tx *store.Txn) error {
			now, ok := v.KV(record.DesiredServiceKey(p.cluster, service))
			if !ok || now.ModRevision != revision {
				return nil
			}
			if old, ok := v.KV(key); ok {
				was, err := store.Decode[record.Observed](old)
				if err == nil && was.DesiredRevision == revision && was.Phase == o.Phase {
					return nil
				}
			}
			tx.ExpectRevision(record.DesiredServiceKey(p.cluster, service), revision)
			tx.Put(key, o)
			return nil
		}})
	if err != nil && ctx.Err() == nil && !errors.As(err, new(*store.ConflictError)) {
		p.t.Error(err)
	}
}

func (p *fakeSyncer) run(ctx context.Context) {
	mirror := p.store.NewMirror(store.MirrorConfig{Prefixes: []string{record.DesiredServicesPrefix(p.cluster)}})
	feed := mirror.Feed()
	go func() {
		if err := mirror.Run(ctx); err != nil && ctx.Err() == nil {
			p.t.Error(err)
		}
	}()
	for {
		keys, err := feed.Next(ctx)
		if err != nil {
			return
		}
		for _, key := range keys {
			if kv, ok := mirror.Snapshot().KV(key); ok {
				p.act(ctx, kv)
			}
		}
	}
}

func (p *fakeSyncer) connect() {
	s, err := p.store.OpenSession(p.t.Context(), store.SessionConfig{
		Key: record.SessionKey(p.cluster), Record: record.Session{V: record.Version, Instance: "fakeSyncer"}, TTL: 30 * time.Second,
	})
	if err != nil {
		p.t.Fatal(err)
	}
	p.session = s
	p.t.Cleanup(func() {
		if err := s.Close(context.WithoutCancel(p.t.Context())); err != nil {
			p.t.Error(err)
		}
	})
}

func (p *fakeSyncer) disconnect() {
	if err := p.session.Close(p.t.Context()); err != nil {
		p.t.Error(err)
	}
}

// world is a control plane over a real etcd, with fake syncers for clusters.
type world struct {
	*controlplane.ControlPlane
	t        *testing.T
	store    *store.Store
	identity *seal.Identity
	clusters map[string]*fakeSyncer
	// stop ends the control plane that the world began with.
	stop func()
}

// newWorld starts a control plane with clusters a, b and c that do as they are told.
func newWorld(t *testing.T, mutate ...func(*controlplane.Config)) *world {
	t.Helper()
	return newWorldOf(t, newIdentity(t), mutate...)
}

// newWorldOf is newWorld with an identity that others can share.
func newWorldOf(t *testing.T, identity *seal.Identity, mutate ...func(*controlplane.Config)) *world {
	t.Helper()
	st := storetest.New(t)
	w := &world{t: t, store: st, identity: identity, clusters: map[string]*fakeSyncer{}}
	w.ControlPlane = startControlPlane(t, st, identity, mutate...)
	for _, id := range []string{"a", "b", "c"} {
		w.addCluster(id)
	}
	return w
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
	p := &fakeSyncer{t: w.t, store: w.store, cluster: id, identity: newIdentity(w.t), answer: yes}
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

// secrets opens what the cluster was sent last, as its syncer would.
func (p *fakeSyncer) secrets() map[string]string {
	p.t.Helper()
	items, _, err := p.store.List(p.t.Context(), record.DesiredServicesPrefix(p.cluster))
	if err != nil || len(items) == 0 {
		p.t.Fatal(len(items), err)
	}
	d, err := store.Decode[record.Desired](items[0])
	if err != nil {
		p.t.Fatal(err)
	}
	kv, err := p.store.Get(p.t.Context(), record.SpecKey(p.cluster, d.Spec))
	if err != nil {
		p.t.Fatal(err)
	}
	spec, err := store.Decode[record.Spec](kv)
	if err != nil {
		p.t.Fatal(err)
	}
	patch, err := p.identity.Open(spec.Sealed, seal.Header{Purpose: "spec", Cluster: p.cluster, UID: d.UID, Generation: d.Generation}, time.Now())
	if err != nil {
		p.t.Fatal(err)
	}
	var out struct {
		Environment struct{ Secrets map[string]string }
	}
	if err := json.Unmarshal(patch, &out); err != nil {
		p.t.Fatal(err)
	}
	return out.Environment.Secrets
}
