package controlplane_test

import (
	"context"
	"encoding/json"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/oscarfed/oscarfed/store"
	"github.com/oscarfed/oscarfed/store/record"
	"github.com/oscarfed/oscarfed/store/seal"
)

// fakeSyncer is a cluster whose syncer does what a test says. It writes the records
// that a syncer would, through the real store.
type fakeSyncer struct {
	t        *testing.T
	store    *store.Store
	cluster  string
	identity *seal.Identity
	session  *store.Session
	// parts says that it announces to read parts.
	parts bool

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
	p.follow(ctx, record.DesiredServicesPrefix(p.cluster), func(kv store.KV) { p.act(ctx, kv) })
}

// follow calls do with each key below a prefix, as it is, when it is there or has changed.
func (p *fakeSyncer) follow(ctx context.Context, prefix string, do func(store.KV)) {
	mirror := p.store.NewMirror(store.MirrorConfig{Prefixes: []string{prefix}})
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
				do(kv)
			}
		}
	}
}

func (p *fakeSyncer) connect() {
	s, err := p.store.OpenSession(p.t.Context(), store.SessionConfig{
		Key: record.SessionKey(p.cluster), Record: record.Session{V: record.Version, Instance: "fakeSyncer", Parts: p.parts}, TTL: 30 * time.Second,
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
