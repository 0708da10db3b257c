package controlplane_test

import (
	"math"
	"strings"
	"testing"

	v1 "github.com/oscarfed/oscarfed/api/v1"
	"github.com/oscarfed/oscarfed/controlplane/fault"
	"github.com/oscarfed/oscarfed/controlplane/federations"
	"github.com/oscarfed/oscarfed/controlplane/identity"
	"github.com/oscarfed/oscarfed/controlplane/recovery"
	"github.com/oscarfed/oscarfed/controlplane/request"
	"github.com/oscarfed/oscarfed/store"
	"github.com/oscarfed/oscarfed/store/record"
	"github.com/oscarfed/oscarfed/store/seal"
	"github.com/oscarfed/oscarfed/test/await"
)

// TestADecisionAboutATombstoneIsInTheAudit, once.
func TestADecisionAboutATombstoneIsInTheAudit(t *testing.T) {
	await.InVirtualTime(t, func(t *testing.T) {
		w := newWorld(t)
		w.mustCreate()
		w.restore()
		w.clusters["c"].does(func(s string, d *record.Desired) *record.Observed {
			if !d.Tombstone() || d.Covers("", 2) {
				return yes(s, d)
			}
			return &record.Observed{Phase: record.PhaseHeld, Reason: record.ReasonAheadOfDesired, Held: &record.Held{Kind: record.HeldAhead, Generation: 2}}
		})
		if _, err := w.Federations.DeleteService(t.Context(), admin, "grayifyr0", federations.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		w.eventually(func() bool {
			all, err := w.Recovery.Differences(t.Context(), admin)
			return err == nil && len(all.Differences) == 1
		})
		req := recovery.ResolveRequest{ClusterID: "c", ServiceName: "grayifyr2", Keep: v1.KeepStore, RequestID: record.NewUID()}
		if _, err := w.Recovery.Resolve(t.Context(), admin, req); err != nil {
			t.Fatal(err)
		}
		w.nothingDesired()
		entries, _, err := w.Requests.Audit(t.Context(), admin, request.AuditQuery{RequestID: req.RequestID})
		if err != nil || len(entries) != 1 || entries[0].Action != string(record.ActionResolve) || entries[0].By != admin.Subject || entries[0].ClusterID != "c" {
			t.Errorf("%+v, %v", entries, err)
		}
	})
}

// TestAnOwnersDecisionIsHis, though the control plane carries it out once the cluster has shown what it has.
func TestAnOwnersDecisionIsHis(t *testing.T) {
	await.InVirtualTime(t, func(t *testing.T) {
		w := newWorld(t)
		ann := identity.Caller{Subject: "ann"}
		if _, err := w.Federations.CreateService(t.Context(), ann, send(t, strings.Replace(lone, `"d"`, `"c"`, 1))); err != nil {
			t.Fatal(err)
		}
		w.restore()
		w.clusters["c"].does(func(s string, d *record.Desired) *record.Observed {
			if d.Covers("", 2) {
				return yes(s, d)
			}
			return &record.Observed{Phase: record.PhaseHeld, Reason: record.ReasonAheadOfDesired, Held: &record.Held{Kind: record.HeldAhead, Generation: 2}}
		})
		w.eventually(func() bool {
			all, err := w.Recovery.Differences(t.Context(), ann)
			return err == nil && len(all.Differences) == 1
		})
		req := recovery.ResolveRequest{ClusterID: "c", ServiceName: "lone", Keep: v1.KeepCluster, RequestID: record.NewUID()}
		if _, err := w.Recovery.Resolve(t.Context(), ann, req); err != nil {
			t.Fatal(err)
		}
		kv, err := w.store.Get(t.Context(), record.AskKey("c", "lone"))
		if err != nil {
			t.Fatal(err)
		}
		ask, err := store.Decode[record.Ask](kv)
		if err != nil {
			t.Fatal(err)
		}
		shown := record.Shown{V: record.Version, UID: ask.UID, RequestID: ask.RequestID, Generation: 2}
		if shown.Sealed, err = seal.Seal(seal.Header{Purpose: seal.PurposeShown, Cluster: "c", UID: ask.UID, Generation: 2},
			[]byte(strings.Replace(lone, "0.5Gi", "1Gi", 1)), ask.Recipient); err != nil {
			t.Fatal(err)
		}
		w.clusters["c"].write(record.ShownKey("c", "lone"), shown)
		w.eventually(func() bool { return len(w.keys(record.AsksPrefix("c"))) == 0 })
		entries, _, err := w.Requests.Audit(t.Context(), admin, request.AuditQuery{RequestID: req.RequestID})
		if err != nil || len(entries) != 2 {
			t.Fatalf("%+v, %v", entries, err)
		}
		for i, outcome := range []record.Outcome{record.OutcomeDone, record.OutcomeAccepted} {
			if e := entries[i]; e.Action != string(record.ActionResolve) || e.Outcome != string(outcome) || e.By != "ann" || e.Owner != "ann" {
				t.Errorf("%+v", e)
			}
		}
		if entries[1].ClusterID != "c" {
			t.Errorf("%+v", entries[1])
		}
		history, err := w.Federations.History(t.Context(), ann, "lone", "")
		if err != nil || len(history) != 2 || history[0].By != "ann" {
			t.Errorf("%+v, %v", history, err)
		}
	})
}

// TestAGenerationThatCannotBeHoldsUpItsOwnClusterAlone: after a restore a hostile member says that it has the largest one. What is
// decided about another member is done.
func TestAGenerationThatCannotBeHoldsUpItsOwnClusterAlone(t *testing.T) {
	await.InVirtualTime(t, func(t *testing.T) {
		w := newWorld(t)
		w.mustCreate()
		w.restore()
		for cluster, generation := range map[string]int64{"b": 2, "c": math.MaxInt64} {
			w.clusters[cluster].does(func(s string, d *record.Desired) *record.Observed {
				if d.Covers("", generation) {
					return yes(s, d)
				}
				return &record.Observed{Phase: record.PhaseHeld, Reason: record.ReasonAheadOfDesired, Held: &record.Held{Kind: record.HeldAhead, Generation: generation}}
			})
		}
		w.eventually(func() bool {
			all, err := w.Recovery.Differences(t.Context(), admin)
			return err == nil && len(all.Differences) == 2
		})
		keep := func(cluster, service string) error {
			_, err := w.Recovery.Resolve(t.Context(), admin, recovery.ResolveRequest{ClusterID: cluster, ServiceName: service, Keep: v1.KeepStore})
			return err
		}
		if err := keep("c", "grayifyr2"); codeOf(t, err) != fault.CodeFailedPrecondition || !strings.Contains(err.Error(), "look at the service on c") {
			t.Error(err)
		}
		if err := keep("b", "grayifyr1"); err != nil {
			t.Error(err)
		}
		all, err := w.Recovery.Differences(t.Context(), admin)
		if err != nil || len(all.Differences) != 1 || all.Differences[0].ClusterID != "c" || all.Differences[0].StoreGeneration != 3 {
			t.Errorf("%+v %v", all, err)
		}
	})
}
