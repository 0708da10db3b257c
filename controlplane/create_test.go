package controlplane_test

import (
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/oscarfed/oscarfed/controlplane"
	"github.com/oscarfed/oscarfed/controlplane/fault"
	"github.com/oscarfed/oscarfed/controlplane/federations"
	"github.com/oscarfed/oscarfed/store"
	"github.com/oscarfed/oscarfed/store/record"
	"github.com/oscarfed/oscarfed/store/storetest/virtual"
	"github.com/oscarfed/oscarfed/test/await"
)

// revision is the store's newest.
func (w *world) revision() int64 {
	w.t.Helper()
	v, err := w.store.Read(w.t.Context(), record.MetaKey)
	if err != nil {
		w.t.Fatal(err)
	}
	return v.Revision
}

func TestCreateMakesOneServiceOnAll(t *testing.T) {
	await.InVirtualTime(t, func(t *testing.T) {
		w := newWorld(t)
		before := w.revision()
		res, err := w.create()
		if err != nil {
			t.Fatal(err)
		}
		if !res.Done || res.Federation.Phase != record.PhaseReady {
			t.Errorf("%+v", res)
		}
		const n, specs = 3, 1
		if cost := w.revision() - before - specs; cost != 2*n+3 {
			t.Errorf("a create over %d clusters cost %d revisions, want %d", n, cost, 2*n+3)
		}
		view, err := w.Federations.Replicas(t.Context(), admin, "grayifyr1", "")
		if err != nil {
			t.Fatal(err)
		}
		if got := view.Members[view.Self].ClusterID; got != "b" || len(view.Sees) != 2 {
			t.Errorf("self %s sees %v", got, view.Sees)
		}

		before = w.revision()
		del, err := w.Federations.DeleteService(t.Context(), admin, "grayifyr0", federations.DeleteOptions{Wait: time.Minute})
		if err != nil || del.Pending != 0 {
			t.Fatal(del, err)
		}
		if cost := w.revision() - before; cost != n+2 {
			t.Errorf("a delete over %d clusters cost %d revisions, want %d", n, cost, n+2)
		}
		for _, prefix := range []string{record.FederationsPrefix, record.NamesPrefix, record.HistoryPrefix, record.RequestsPrefix,
			record.DesiredServicesPrefix("a"), record.SpecsPrefix("b"), record.ObservedServicesPrefix("c")} {
			if left := w.keys(prefix); len(left) > 0 {
				t.Errorf("left behind: %v", left)
			}
		}
		if got := w.keys(record.DeletedPrefix); len(got) != n {
			t.Errorf("%d replicas are remembered as deleted, want %d", len(got), n)
		}
	})
}

func TestOneRefusalLeavesNothing(t *testing.T) {
	await.InVirtualTime(t, func(t *testing.T) {
		w := newWorld(t)
		w.clusters["b"].does(no(record.ReasonNameTaken))
		_, err := w.create()
		if code := codeOf(t, err); code != fault.CodeAlreadyExists {
			t.Errorf("code %s", code)
		}
		var e *fault.Error
		errors.As(err, &e)
		if e.Failed == nil || e.Failed.Phase != record.PhaseAborted || e.Failed.Rollback != string(record.RollbackNotNeeded) ||
			e.Failed.Replicas[1].Cause == nil || e.Failed.Replicas[0].Cause != nil {
			t.Errorf("%+v", e.Failed)
		}
		for _, prefix := range []string{record.NamesPrefix, record.DesiredServicesPrefix("a"), record.ObservedServicesPrefix("b"), record.SpecsPrefix("c")} {
			if left := w.keys(prefix); len(left) > 0 {
				t.Errorf("left behind: %v", left)
			}
		}
		// The result does not hold the name, and says what happened.
		if view, err := w.Federations.Replicas(t.Context(), admin, "grayifyr0", ""); err != nil || view.Phase != record.PhaseAborted {
			t.Error(view, err)
		}
		w.clusters["b"].does(yes)
		if _, err := w.create(); err != nil {
			t.Error("the same request works once the cause is gone:", err)
		}
	})
}

// A creation that failed is forgotten by the name of its coordinator, also when a later one failed that names this
// service as a member.
func TestAFailedCreationIsForgottenByItsName(t *testing.T) {
	await.InVirtualTime(t, func(t *testing.T) {
		w := newWorld(t)
		w.clusters["a"].does(no(record.ReasonNameTaken))
		if _, err := w.create(); codeOf(t, err) != fault.CodeAlreadyExists {
			t.Fatal(err)
		}
		<-time.After(time.Second)
		other := strings.NewReplacer(`"name":"grayifyr0"`, `"name":"other","cluster_id":"b"`,
			`"cluster_id":"b","service_name":"grayifyr1"`, `"cluster_id":"a","service_name":"grayifyr0"`, "grayifyr0/", "other/").Replace(body)
		if _, err := w.Federations.CreateService(t.Context(), admin, send(t, other)); codeOf(t, err) != fault.CodeAlreadyExists {
			t.Fatal(err)
		}
		for _, name := range []string{"grayifyr0", "other"} {
			if _, err := w.Federations.DeleteService(t.Context(), admin, name, federations.DeleteOptions{}); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
		if left := w.keys(record.FederationsPrefix); len(left) > 0 {
			t.Errorf("left behind: %v", left)
		}
	})
}

func TestAFailedApplyIsRolledBackEverywhere(t *testing.T) {
	await.InVirtualTime(t, func(t *testing.T) {
		w := newWorld(t)
		w.clusters["c"].does(failing)
		_, err := w.create()
		if code := codeOf(t, err); code != fault.CodeReplicaFailed {
			t.Errorf("code %s: %v", code, err)
		}
		var e *fault.Error
		errors.As(err, &e)
		states := []record.RollbackState{}
		for _, r := range e.Failed.Replicas {
			states = append(states, record.RollbackState(r.Rollback.State))
		}
		if e.Failed.Phase != record.PhaseRolledBack || e.Failed.Rollback != string(record.RollbackComplete) ||
			states[0] != record.RollbackDeleted || states[2] != record.RollbackNotCreated {
			t.Errorf("%+v", e.Failed)
		}
		if left := w.keys(record.DesiredServicesPrefix("a")); len(left) > 0 {
			t.Errorf("left behind: %v", left)
		}
		w.clusters["c"].does(yes)
		if _, err := w.create(); err != nil {
			t.Error("the same request works afterwards:", err)
		}
	})
}

func TestAClusterThatIsAwayAfterTheVoteHoldsNothingUp(t *testing.T) {
	await.InVirtualTime(t, func(t *testing.T) {
		w := newWorld(t)
		voted := make(chan struct{})
		once := sync.OnceFunc(func() { close(voted) })
		w.clusters["b"].does(func(s string, d *record.Desired) *record.Observed {
			if d.Intent == record.IntentApply {
				once()
			}
			if d.Intent != record.IntentPrepare {
				return nil
			}
			return yes(s, d)
		})
		go func() {
			<-voted
			w.clusters["b"].disconnect()
		}()
		_, err := w.create(func(r *federations.CreateRequest) { r.Wait = patience })
		if code := codeOf(t, err); code != fault.CodeReplicaFailed {
			t.Fatalf("code %s: %v", code, err)
		}
		var e *fault.Error
		errors.As(err, &e)
		if b := e.Failed.Replicas[1]; b.Cause == nil || b.Cause.Reason != string(record.ReasonSessionLost) || b.Rollback.State != string(record.RollbackPending) {
			t.Errorf("%+v", b)
		}
		if e.Failed.Rollback != string(record.RollbackPending) {
			t.Errorf("rollback %s", e.Failed.Rollback)
		}
		if left := w.keys(record.DesiredServicesPrefix("b")); len(left) != 1 {
			t.Errorf("the tombstone waits for the cluster: %v", left)
		}
		// Its service name is held there, and the refusal says so.
		_, err = w.create()
		if code := codeOf(t, err); code != fault.CodeAlreadyExists || !strings.Contains(err.Error(), "b/grayifyr1") {
			t.Errorf("%v", err)
		}
		w.clusters["b"].connect()
		w.clusters["b"].does(yes)
		w.eventually(func() bool { return len(w.keys(record.DesiredServicesPrefix("b"))) == 0 })
		if _, err := w.create(); err != nil {
			t.Error("when the cluster is back the name is free:", err)
		}
	})
}

// eventually waits for a condition on the store; the test's deadline ends it.
func (w *world) eventually(ok func() bool) {
	w.t.Helper()
	late := time.Now().Add(patience)
	for pause := 5 * time.Millisecond; !ok(); pause = min(2*pause, time.Second) {
		if time.Now().After(late) {
			w.t.Fatal("it never came true")
		}
		<-time.After(pause)
	}
}

func TestSilenceIsUnavailable(t *testing.T) {
	await.InVirtualTime(t, func(t *testing.T) {
		w := newWorld(t)
		w.clusters["c"].does(silent)
		_, err := w.create()
		if code := codeOf(t, err); code != fault.CodeUnavailable || !strings.Contains(err.Error(), "best-effort") {
			t.Errorf("%v", err)
		}
		res, err := w.create(func(r *federations.CreateRequest) { r.Deployment = "best-effort" })
		if err != nil || !res.Done || len(res.Away) != 1 || res.Away[0].ClusterID != "c" {
			t.Fatalf("%+v %v", res, err)
		}
		w.clusters["c"].does(yes)
		w.eventually(func() bool {
			view, err := w.Federations.Replicas(t.Context(), admin, "grayifyr0", "")
			return err == nil && view.Phase == record.PhaseReady
		})
	})
}

func TestAStaleVoteOfAnAbortedAttemptCountsForNothing(t *testing.T) {
	await.InVirtualTime(t, func(t *testing.T) {
		w := newWorld(t)
		w.clusters["c"].does(silent)
		var first *record.Desired
		var firstRevision int64
		asked := make(chan struct{})
		w.clusters["b"].does(func(s string, d *record.Desired) *record.Observed {
			if d.Intent == record.IntentPrepare && first == nil {
				first = d
				kv, err := w.store.Get(t.Context(), record.DesiredServiceKey("b", s))
				if err != nil {
					t.Error(err)
				}
				firstRevision = kv.ModRevision
				close(asked)
			}
			return nil // it never answers in time
		})
		refused := make(chan error)
		go func() { _, err := w.create(); refused <- err }()
		<-asked
		w.clusters["c"].does(no(record.ReasonDoesNotFit))
		if err := <-refused; err == nil {
			t.Fatal("the first attempt was not refused")
		}
		w.clusters["c"].does(yes)
		seen := make(chan struct{})
		once := sync.OnceFunc(func() { close(seen) })
		w.clusters["b"].does(func(s string, d *record.Desired) *record.Observed { once(); return nil })
		done := make(chan error)
		go func() { _, err := w.create(); done <- err }()
		<-seen
		// The vote for the first attempt arrives now, as a syncer without any guard
		// would write it.
		_, err := w.store.Update(t.Context(), store.Update{Build: func(_ store.View, tx *store.Txn) error {
			tx.Put(record.ObservedServiceKey("b", "grayifyr1"), record.Observed{V: 1, Phase: record.PhasePrepared, UID: first.UID,
				DesiredRevision: firstRevision, Vote: &record.Vote{Answer: record.VoteYes, Revision: firstRevision}})
			return nil
		}})
		if err != nil {
			t.Fatal(err)
		}
		if err := <-done; codeOf(t, err) != fault.CodeUnavailable {
			t.Errorf("the stale vote was counted: %v", err)
		}
	})
}

func TestInstancesTakeEachStepOnce(t *testing.T) {
	await.InVirtualTime(t, func(t *testing.T) {
		w := newWorld(t)
		w.second()
		w.second()
		before := w.revision()
		if _, err := w.create(); err != nil {
			t.Fatal(err)
		}
		if cost := w.revision() - before - 1; cost != 2*3+3 {
			t.Errorf("with three instances a create cost %d revisions, want 9", cost)
		}
	})
}

func TestAnInstanceWithAnotherIdentityDoesNotStart(t *testing.T) {
	await.InVirtualTime(t, func(t *testing.T) {
		st := virtual.Open(t)
		startControlPlane(t, st, newIdentity(t))
		other, err := controlplane.New(controlplane.Config{Store: st, Identity: newIdentity(t)})
		if err != nil {
			t.Fatal(err)
		}
		if err := other.Run(t.Context()); err == nil || !strings.Contains(err.Error(), "identity") {
			t.Errorf("it works with another key: %v", err)
		}
	})
}

func TestARestartedControlPlaneTakesTheNextStep(t *testing.T) {
	await.InVirtualTime(t, func(t *testing.T) {
		w := newWorld(t)
		w.clusters["c"].does(silent)
		key := func(r *federations.CreateRequest) { r.IdempotencyKey = "once" }
		res, err := w.create(key, func(r *federations.CreateRequest) { r.Wait = 0 })
		if err != nil || res.Done {
			t.Fatal(res, err)
		}
		w.ControlPlane = w.second()
		w.clusters["c"].does(yes)
		again, err := w.create(key)
		if err != nil || again.Federation.UID != res.Federation.UID {
			t.Errorf("the same request joins: %+v %v", again, err)
		}
	})
}
