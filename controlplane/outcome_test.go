package controlplane

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/oscarfed/oscarfed/controlplane/identity"
	"github.com/oscarfed/oscarfed/store"
	"github.com/oscarfed/oscarfed/store/record"
	"github.com/oscarfed/oscarfed/store/seal"
	"github.com/oscarfed/oscarfed/store/storetest"
)

// blind is a control plane that does not run: it sees nothing of what is written.
func blind(t *testing.T) (*ControlPlane, *store.Store) {
	t.Helper()
	st := storetest.New(t)
	identity, err := seal.Generate()
	if err != nil {
		t.Fatal(err)
	}
	cp, err := New(Config{Store: st, Identity: identity, DefaultCluster: "a", Logger: storetest.Logger(t)})
	if err != nil {
		t.Fatal(err)
	}
	return cp, st
}

func write(t *testing.T, st *store.Store, records map[string]any) {
	t.Helper()
	_, err := st.Update(t.Context(), store.Update{Build: func(_ store.View, tx *store.Txn) error {
		for key, rec := range records {
			tx.Put(key, rec)
		}
		return nil
	}})
	if err != nil {
		t.Fatal(err)
	}
}

// TestAnInstanceThatLagsSaysThatNothingWasChanged: it was committed, and the caller's time
// ended before this instance saw it.
func TestAnInstanceThatLagsSaysThatNothingWasChanged(t *testing.T) {
	cp, st := blind(t)
	admin := identity.Caller{Subject: identity.Admin, Administrator: true}
	tombstone := record.Desired{V: record.Version, Intent: record.IntentDelete, UID: "u", Federation: "f"}
	write(t, st, map[string]any{
		record.ClusterKey("a"):                record.Cluster{V: record.Version, ClusterID: "a", UID: "uid of a", State: record.ClusterActive},
		record.DesiredClusterKey("a"):         record.DesiredCluster{V: record.Version, State: record.ClusterActive},
		record.FederationKey("f"):             record.Federation{V: record.Version, UID: "f", Phase: record.PhaseDeleting},
		record.DesiredServiceKey("a", "gone"): tombstone,
	})
	d := &Difference{ClusterID: "a", ServiceName: "gone", UID: "u", Federation: "f"}
	for name, write := range map[string]func(context.Context) error{
		"the order to remove a cluster": func(ctx context.Context) error {
			_, err := cp.orderRemoval(ctx, admin, "a", RemoveOptions{})
			return err
		},
		"a question to a cluster": func(ctx context.Context) error { return cp.ask(ctx, ResolveRequest{}, d) },
		"a deletion that is insisted on": func(ctx context.Context) error {
			return cp.insistOnEnd(ctx, ResolveRequest{RequestID: "r"}, d, &record.Branch{Epoch: "e", Generation: 2})
		},
		"the tombstone of what is foreign": func(ctx context.Context) error {
			return cp.writeOrphan(ctx, orphanStep{cluster: "a", service: "other", deleted: versioned[record.Deleted]{rec: &record.Deleted{V: record.Version, UID: "o", Federation: "g"}},
				put: &tombstone})
		},
	} {
		t.Run(name, func(t *testing.T) {
			before, err := st.Read(t.Context(), record.MetaKey)
			if err != nil {
				t.Fatal(err)
			}
			ctx, end := context.WithCancel(t.Context())
			defer end()
			done := make(chan error, 1)
			go func() { done <- crossing(write(ctx)) }()
			late := time.After(time.Minute)
			for tick := time.NewTicker(5 * time.Millisecond); ; {
				now, err := st.Read(t.Context(), record.MetaKey)
				if err != nil {
					t.Fatal(err)
				}
				if now.Revision > before.Revision {
					break
				}
				select {
				case <-tick.C:
				case err := <-done:
					t.Fatalf("it was not written: %v", err)
				case <-late:
					t.Fatal("it was never written")
				}
			}
			end()
			err = <-done
			if e, ok := errors.AsType[*Error](err); !ok || e.Code != CodeUnknownOutcome {
				t.Errorf("it is told as: %v", err)
			}
		})
	}
}

// TestARefusalThatAnotherInstanceHasPassedByIsUnknown: the next change has taken the
// refusal out of the federation before this instance saw it there. With its key it is kept.
func TestARefusalThatAnotherInstanceHasPassedByIsUnknown(t *testing.T) {
	cp, st := blind(t)
	now := record.Federation{V: record.Version, UID: "f", GroupID: "g", Phase: record.PhaseReady, Generation: 1, RequestID: "next"}
	then := now
	then.Refused = &record.Refused{RequestID: "mine", Code: string(CodeFailedPrecondition), Detail: "it does not fit"}
	q := claim{hash: "h", bodyHash: "b", keyed: true, requestID: "mine"}
	at := record.At(time.Now())
	write(t, st, map[string]any{
		record.RequestKey("h"): q.record("f", at, &record.Answer{Phase: record.PhaseReady, Federation: &then}),
	})
	cp.state.mu.Lock()
	cp.state.view.revision = 1 << 40 // as new as the store will ever be
	cp.state.view.federations["f"] = versioned[record.Federation]{rec: &now, rev: 1}
	cp.state.mu.Unlock()
	err := cp.verdict(t.Context(), attempt{place: place{uid: "f", rec: &now}, generation: 2, votes: true}, q)
	if e, ok := errors.AsType[*Error](err); !ok || e.Code != CodeFailedPrecondition || e.Message != "it does not fit" {
		t.Errorf("with a key: %v", err)
	}
	err = cp.verdict(t.Context(), attempt{place: place{uid: "f", rec: &now}, generation: 2, votes: true}, claim{requestID: "mine"})
	if e, ok := errors.AsType[*Error](err); !ok || e.Code != CodeUnknownOutcome {
		t.Errorf("without one: %v", err)
	}
}
