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
	"github.com/oscarfed/oscarfed/controlplane/identity"
	"github.com/oscarfed/oscarfed/store"
	"github.com/oscarfed/oscarfed/store/record"
	"github.com/oscarfed/oscarfed/store/storetest"
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
}

func TestOneRefusalLeavesNothing(t *testing.T) {
	w := newWorld(t)
	w.clusters["b"].does(no(record.ReasonNameTaken))
	_, err := w.create()
	if code := codeOf(t, err); code != fault.CodeAlreadyExists {
		t.Errorf("code %s", code)
	}
	var e *fault.Error
	errors.As(err, &e)
	if e.Failed == nil || e.Failed.Phase != record.PhaseAborted || e.Failed.Rollback != record.RollbackNotNeeded ||
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
}

func TestAFailedApplyIsRolledBackEverywhere(t *testing.T) {
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
		states = append(states, r.Rollback.State)
	}
	if e.Failed.Phase != record.PhaseRolledBack || e.Failed.Rollback != record.RollbackComplete ||
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
}

func TestAClusterThatIsAwayAfterTheVoteHoldsNothingUp(t *testing.T) {
	w := newWorld(t, func(c *controlplane.Config) { c.ApplyGrace = 2 * time.Second })
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
	_, err := w.create()
	if code := codeOf(t, err); code != fault.CodeReplicaFailed {
		t.Fatalf("code %s: %v", code, err)
	}
	var e *fault.Error
	errors.As(err, &e)
	if b := e.Failed.Replicas[1]; b.Cause == nil || b.Cause.Reason != record.ReasonSessionLost || b.Rollback.State != record.RollbackPending {
		t.Errorf("%+v", b)
	}
	if e.Failed.Rollback != record.RollbackPending {
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
}

// eventually waits for a condition on the store; the test's deadline ends it.
func (w *world) eventually(ok func() bool) {
	w.t.Helper()
	late := time.After(patience)
	for !ok() {
		select {
		case <-time.After(5 * time.Millisecond):
		case <-late:
			w.t.Fatal("it never came true")
		}
	}
}

func TestSilenceIsUnavailable(t *testing.T) {
	w := newWorld(t, func(c *controlplane.Config) { c.PrepareDeadline = 2 * time.Second })
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
}

func TestAStaleVoteOfAnAbortedAttemptCountsForNothing(t *testing.T) {
	w := newWorld(t, func(c *controlplane.Config) { c.PrepareDeadline = 2 * time.Second })
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
}

func TestTheSameRequestGetsTheSameOutcome(t *testing.T) {
	w := newWorld(t)
	key := func(r *federations.CreateRequest) { r.IdempotencyKey = "k1" }
	first, err := w.create(key)
	if err != nil {
		t.Fatal(err)
	}
	again, err := w.create(key)
	if err != nil || !again.Replayed || again.Federation.UID != first.Federation.UID {
		t.Errorf("%+v %v", again, err)
	}
	if _, err := w.create(); codeOf(t, err) != fault.CodeAlreadyExists {
		t.Errorf("without the key it is another request: %v", err)
	}
	other := strings.Replace(body, "0.5Gi", "1Gi", 1)
	_, err = w.Federations.CreateService(t.Context(), admin, send(t, other, key))
	if codeOf(t, err) != fault.CodeFailedPrecondition {
		t.Errorf("the key with another body: %v", err)
	}
	// A failure is kept as well.
	w.clusters["b"].does(no(record.ReasonDoesNotFit))
	refused := strings.NewReplacer("grayifyr", "other").Replace(body)
	key2 := func(r *federations.CreateRequest) { r.IdempotencyKey = "k2" }
	_, err1 := w.Federations.CreateService(t.Context(), admin, send(t, refused, key2))
	w.clusters["b"].does(yes)
	_, err2 := w.Federations.CreateService(t.Context(), admin, send(t, refused, key2))
	if codeOf(t, err1) != fault.CodeFailedPrecondition || codeOf(t, err2) != codeOf(t, err1) || err1.Error() != err2.Error() {
		t.Errorf("%v and then %v", err1, err2)
	}
}

// TestTheOutcomeOfAFederationThatIsGone is what it was: ready, of generation 1, with
// the revision that it had; and not how its replicas are by now.
func TestTheOutcomeOfAFederationThatIsGone(t *testing.T) {
	w := newWorld(t)
	key := func(r *federations.CreateRequest) { r.IdempotencyKey = "k1" }
	first, err := w.create(key)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.Federations.DeleteService(t.Context(), admin, "grayifyr0", federations.DeleteOptions{Wait: time.Minute}); err != nil {
		t.Fatal(err)
	}
	again, err := w.create(key)
	if err != nil || !again.Replayed {
		t.Fatalf("%+v %v", again, err)
	}
	got, want := again.Federation, first.Federation
	if got.UID != want.UID || got.Phase != record.PhaseReady || got.Revision != want.Revision || got.Revision == 0 {
		t.Errorf("%s is %s at revision %d, want %s ready at %d", got.UID, got.Phase, got.Revision, want.UID, want.Revision)
	}
	for _, m := range got.Members {
		if m.Status.Phase != record.PhaseReady || m.Status.ObservedGeneration != 1 {
			t.Errorf("%s is shown as %+v", m.ClusterID, m.Status)
		}
	}
}

func TestTheSameRequestAfterItsOutcomeIsANewOne(t *testing.T) {
	w := newWorld(t)
	w.clusters["b"].does(no(record.ReasonDoesNotFit))
	if _, err := w.create(); codeOf(t, err) != fault.CodeFailedPrecondition {
		t.Fatal(err)
	}
	// What a request without a key left behind must not answer for the next one,
	// not even when the instance that decided died before it took it away.
	items, _, err := w.store.List(t.Context(), record.FederationsPrefix)
	if err != nil || len(items) != 1 {
		t.Fatal(len(items), err)
	}
	fed, err := store.Decode[record.Federation](items[0])
	if err != nil {
		t.Fatal(err)
	}
	_, err = w.store.Update(t.Context(), store.Update{Build: func(_ store.View, tx *store.Txn) error {
		tx.Put(record.RequestKey(fed.Request), record.Request{V: record.Version, BodyHash: "stale", UID: fed.UID})
		return nil
	}})
	if err != nil {
		t.Fatal(err)
	}
	w.clusters["b"].does(yes)
	if _, err := w.create(); err != nil {
		t.Error(err)
	}
}

func TestConcurrentSameRequestsMakeOneFederation(t *testing.T) {
	w := newWorld(t)
	var wg sync.WaitGroup
	uids := make([]string, 8)
	for i := range uids {
		wg.Go(func() {
			res, err := w.create()
			if err == nil {
				uids[i] = res.Federation.UID
			} else if code := codeOf(t, err); code != fault.CodeAlreadyExists && code != fault.CodeConflict {
				// Without a key, the first one is forgotten with its outcome: who looks just
				// then hears 409, by the one or the other word.
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if got := w.keys(record.FederationsPrefix); len(got) != 1 {
		t.Errorf("%d federations", len(got))
	}
}

func TestDeleteDuringACreateMakesItRollBack(t *testing.T) {
	for phase, stops := range map[record.Phase]record.Intent{
		record.PhasePreparing: record.IntentPrepare, record.PhaseApplying: record.IntentApply,
	} {
		t.Run(string(phase), func(t *testing.T) {
			w := newWorld(t)
			reached := make(chan struct{})
			once := sync.OnceFunc(func() { close(reached) })
			w.clusters["b"].does(func(s string, d *record.Desired) *record.Observed {
				if d.Intent == stops {
					once()
					return nil
				}
				return yes(s, d)
			})
			done := make(chan error)
			go func() { _, err := w.create(); done <- err }()
			<-reached
			if _, err := w.Federations.CreateService(t.Context(), admin, send(t, strings.Replace(body, "0.5Gi", "1Gi", 1))); codeOf(t, err) != fault.CodeConflict {
				t.Errorf("another change while one is in flight: %v", err)
			}
			if _, err := w.Federations.DeleteService(t.Context(), admin, "grayifyr0", federations.DeleteOptions{Wait: time.Minute}); err != nil {
				t.Fatal(err)
			}
			if err := <-done; codeOf(t, err) != fault.CodeConflict {
				t.Errorf("the creator is told: %v", err)
			}
			for _, c := range []string{"a", "b", "c"} {
				if left := w.keys(record.DesiredServicesPrefix(c)); len(left) > 0 {
					t.Errorf("left behind: %v", left)
				}
			}
		})
	}
}

func TestAPendingDeleteHoldsItsNameAgainstAnotherOwner(t *testing.T) {
	w := newWorld(t)
	alice, bob := identity.Caller{Subject: "alice@example.org"}, identity.Caller{Subject: "bob/with/slashes"}
	if _, err := w.Federations.CreateService(t.Context(), alice, send(t, usersBody)); err != nil {
		t.Fatal(err)
	}
	w.clusters["c"].does(silent)
	w.clusters["c"].disconnect()
	w.eventually(func() bool { c, err := w.Clusters.Cluster(t.Context(), admin, "c"); return err == nil && !c.Alive })
	res, err := w.Federations.DeleteService(t.Context(), alice, "grayifyr0", federations.DeleteOptions{Wait: time.Minute})
	if err != nil || res.Pending != 1 {
		t.Fatalf("%+v %v", res, err)
	}
	if _, err := w.Federations.Replicas(t.Context(), alice, "grayifyr0", ""); codeOf(t, err) != fault.CodeNotFound {
		t.Errorf("a deleted federation is gone at once: %v", err)
	}
	_, err = w.Federations.CreateService(t.Context(), bob, send(t, usersBody))
	if codeOf(t, err) != fault.CodeAlreadyExists || strings.Contains(err.Error(), "alice") {
		t.Errorf("%v", err)
	}
	without := strings.Replace(usersBody, `,{"type":"oscar","cluster_id":"c","service_name":"grayifyr2"}`, "", 1)
	w.eventually(func() bool { return len(w.keys(record.DesiredServicesPrefix("a"))) == 0 })
	if _, err := w.Federations.CreateService(t.Context(), bob, send(t, without)); err != nil {
		t.Errorf("the reachable clusters are free: %v", err)
	}
	w.clusters["c"].connect()
	w.clusters["c"].does(yes)
	w.eventually(func() bool { return len(w.keys(record.DesiredServicesPrefix("c"))) == 0 })
	if _, _, err := w.Federations.Service(t.Context(), alice, "grayifyr0", ""); codeOf(t, err) != fault.CodeNotFound {
		t.Errorf("bob's private service is not alice's to see: %v", err)
	}
}

func TestTwoDecidersTakeEachStepOnce(t *testing.T) {
	st := storetest.New(t)
	id := newIdentity(t)
	w := &world{t: t, store: st, clusters: map[string]*fakeSyncer{}}
	w.ControlPlane = startControlPlane(t, st, id)
	startControlPlane(t, st, id)
	startControlPlane(t, st, id)
	for _, c := range []string{"a", "b", "c"} {
		w.addCluster(c)
	}
	before := w.revision()
	if _, err := w.create(); err != nil {
		t.Fatal(err)
	}
	if cost := w.revision() - before - 1; cost != 2*3+3 {
		t.Errorf("with three instances a create cost %d revisions, want 9", cost)
	}
}

func TestAnInstanceWithAnotherIdentityDoesNotStart(t *testing.T) {
	st := storetest.New(t)
	startControlPlane(t, st, newIdentity(t))
	other, err := controlplane.New(controlplane.Config{Store: st, Identity: newIdentity(t)})
	if err != nil {
		t.Fatal(err)
	}
	if err := other.Run(t.Context()); err == nil || !strings.Contains(err.Error(), "identity") {
		t.Errorf("it works with another key: %v", err)
	}
}

func TestARestartedControlPlaneTakesTheNextStep(t *testing.T) {
	st := storetest.New(t)
	id := newIdentity(t)
	w := &world{t: t, store: st, clusters: map[string]*fakeSyncer{}}
	w.ControlPlane = startControlPlane(t, st, id)
	for _, c := range []string{"a", "b", "c"} {
		w.addCluster(c)
	}
	w.clusters["c"].does(silent)
	key := func(r *federations.CreateRequest) { r.IdempotencyKey = "once" }
	res, err := w.create(key, func(r *federations.CreateRequest) { r.Wait = 0 })
	if err != nil || res.Done {
		t.Fatal(res, err)
	}
	w.ControlPlane = startControlPlane(t, st, id)
	w.clusters["c"].does(yes)
	again, err := w.create(key)
	if err != nil || again.Federation.UID != res.Federation.UID {
		t.Errorf("the same request joins: %+v %v", again, err)
	}
}

func TestADeletionThatWaitsForJobsCanBeHurried(t *testing.T) {
	w := newWorld(t)
	if _, err := w.create(); err != nil {
		t.Fatal(err)
	}
	w.clusters["b"].does(func(s string, d *record.Desired) *record.Observed {
		if d.Tombstone() && d.Jobs != "cancel" {
			return nil // a job runs
		}
		return yes(s, d)
	})
	res, err := w.Federations.DeleteService(t.Context(), admin, "grayifyr0", federations.DeleteOptions{Wait: 300 * time.Millisecond})
	if err != nil || res.Pending != 1 {
		t.Fatal(res, err)
	}
	if _, err := w.Federations.DeleteService(t.Context(), admin, "grayifyr0", federations.DeleteOptions{}); codeOf(t, err) != fault.CodeNotFound {
		t.Error("without an order it is gone:", err)
	}
	res, err = w.Federations.DeleteService(t.Context(), admin, "grayifyr0", federations.DeleteOptions{Jobs: "cancel", Wait: time.Minute})
	if err != nil || res.Pending != 0 {
		t.Error(res, err)
	}
}

func TestDeletingAMemberRemovesIt(t *testing.T) {
	w := newWorld(t)
	if _, err := w.create(); err != nil {
		t.Fatal(err)
	}
	res, err := w.Federations.DeleteService(t.Context(), admin, "grayifyr2", federations.DeleteOptions{Wait: time.Minute})
	if err != nil || res.Pending != 0 {
		t.Fatal(res, err)
	}
	v, err := w.Federations.Replicas(t.Context(), admin, "grayifyr0", "")
	if err != nil || len(v.Members) != 2 || v.Generation != 2 {
		t.Errorf("%+v %v", v, err)
	}
}
