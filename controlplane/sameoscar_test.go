package controlplane_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "github.com/oscarfed/oscarfed/api/v1"

	"github.com/oscarfed/oscarfed/api/oscar"
	"github.com/oscarfed/oscarfed/controlplane/clusters"
	"github.com/oscarfed/oscarfed/controlplane/fault"
	"github.com/oscarfed/oscarfed/controlplane/federations"
	"github.com/oscarfed/oscarfed/controlplane/recovery"
	"github.com/oscarfed/oscarfed/store"
	"github.com/oscarfed/oscarfed/store/record"
	"github.com/oscarfed/oscarfed/store/storetest"
	"github.com/oscarfed/oscarfed/test/await"
)

// tellsOscar has the syncer of a cluster say which OSCAR it has.
func (w *world) tellsOscar(cluster, id string) {
	w.t.Helper()
	key := record.ObservedClusterKey(cluster)
	_, err := w.store.Update(w.t.Context(), store.Update{Keys: []string{key}, Build: func(v store.View, tx *store.Txn) error {
		next := &record.ObservedCluster{V: record.Version, Recipient: w.clusters[cluster].identity.Recipient()}
		if kv, ok := v.KV(key); ok {
			var err error
			if next, err = store.Decode[record.ObservedCluster](kv); err != nil {
				return err
			}
		}
		next.OscarID = id
		tx.Put(key, next)
		return nil
	}})
	if err != nil {
		w.t.Fatal(err)
	}
}

// barred says whether a violation has these words.
func barred(err error, words string) bool {
	e, ok := errors.AsType[*fault.Error](err)
	return ok && slices.ContainsFunc(e.Violations, func(v oscar.Violation) bool { return strings.Contains(v.Message, words) })
}

func (w *world) sameAs(cluster, want string) {
	w.t.Helper()
	w.eventually(func() bool {
		kv, err := w.store.Get(w.t.Context(), record.DesiredClusterKey(cluster))
		if err != nil {
			return false
		}
		d, err := store.Decode[record.DesiredCluster](kv)
		return err == nil && d.SameOscarAs == want
	})
}

// TestAnOSCARThatIsRegisteredAlreadyDoesNotJoin under another id.
func TestAnOSCARThatIsRegisteredAlreadyDoesNotJoin(t *testing.T) {
	await.InVirtualTime(t, func(t *testing.T) {
		j := newJoining(t)
		one := newMachine(t, "a", j.token("a", false))
		one.request.KubeSystemUID, one.request.OscarID = "", "0d9cf6e6-oscar"
		if _, err := j.Clusters.Join(t.Context(), one.request); err != nil {
			t.Fatal(err)
		}
		two := newMachine(t, "b", j.token("b", false))
		two.request.KubeSystemUID, two.request.OscarID = "", one.request.OscarID
		_, err := j.Clusters.Join(t.Context(), two.request)
		refused(t, "the same OSCAR as b", err, fault.CodeConflict, `is registered as cluster "a" already`)
		if j.registration("b").Joined != nil {
			t.Error("it is entered as joined")
		}
		// The token is as good as before, and the first one may come again.
		two.request.OscarID = "another"
		if _, err := j.Clusters.Join(t.Context(), two.request); err != nil {
			t.Error("with an OSCAR of its own:", err)
		}
		if _, err := j.Clusters.Join(t.Context(), one.request); err != nil {
			t.Error("the first one again:", err)
		}
	})
}

// TestOneOSCARUnderTwoIdsStopsTheSecond, and nothing is placed on it until one of them
// is gone or has another OSCAR.
func TestOneOSCARUnderTwoIdsStopsTheSecond(t *testing.T) {
	await.InVirtualTime(t, func(t *testing.T) {
		w := newWorld(t)
		w.tellsOscar("c", "same")
		w.tellsOscar("b", "same")
		w.sameAs("c", "b")
		w.sameAs("b", "")
		c, err := w.Clusters.Get(t.Context(), admin, "c")
		if err != nil || c.Reason != string(record.ReasonSameOscar) {
			t.Errorf("c says %q, %v", c.Reason, err)
		}
		_, err = w.create()
		if codeOf(t, err) != fault.CodeInvalid || !barred(err, `same OSCAR as cluster "b"`) {
			t.Errorf("a create with both: %v", err)
		}
		w.tellsOscar("c", "its own")
		w.sameAs("c", "")
		if _, err := w.create(); err != nil {
			t.Error("with an OSCAR of its own:", err)
		}
	})
}

// TestWhatWasSeenOfAClusterIsNotToldTheNextOneOfThatName: as an instance writes that its OSCAR is another one's, another
// cluster is registered under that id.
func TestWhatWasSeenOfAClusterIsNotToldTheNextOneOfThatName(t *testing.T) {
	await.InVirtualTime(t, func(t *testing.T) {
		w := newWorld(t)
		c, faults := w.clusters["c"], new(storetest.Faults)
		startControlPlane(t, w.net.Open(t, "slow", store.Config{DialOptions: faults.DialOptions()}), w.identity)
		w.tellsOscar("b", "same")
		c.disconnect()
		<-time.After(time.Second) // both have noted it
		replaced := make(chan struct{})
		faults.BeforeWrite(func() {
			defer close(replaced)
			w.sameAs("c", "b")
			w.replace(c)
		})
		w.tellsOscar("c", "same")
		<-replaced
		<-time.After(time.Second)
		kv, err := w.store.Get(t.Context(), record.DesiredClusterKey("c"))
		if err != nil {
			t.Fatal(err)
		}
		if told, err := store.Decode[record.DesiredCluster](kv); err != nil || told.SameOscarAs != "" {
			t.Errorf("it is told %+v, %v", told, err)
		}
	})
}

// TestAClusterThatSaysAnotherOSCARAgainAndAgainIsWrittenAboutSeldom: each time it was in the audit, and each creation was drafted
// anew. That it is another one's is told at once, and that it is not when it has been so for a while.
func TestAClusterThatSaysAnotherOSCARAgainAndAgainIsWrittenAboutSeldom(t *testing.T) {
	await.InVirtualTime(t, func(t *testing.T) {
		w := newWorld(t)
		w.tellsOscar("a", "one")
		w.tellsOscar("b", "two")
		told := func() (n int) {
			for _, key := range w.keys(record.AuditPrefix) {
				kv, err := w.store.Get(t.Context(), key)
				if err != nil {
					t.Fatal(err)
				}
				if e, err := store.Decode[record.Audit](kv); err != nil {
					t.Fatal(err)
				} else if strings.Contains(e.Detail, "its OSCAR is") {
					n++
				}
			}
			return n
		}
		began := time.Now()
		for range 100 {
			for _, id := range []string{"one", "its own", "two"} {
				w.tellsOscar("c", id)
				<-time.After(100 * time.Millisecond)
			}
		}
		if time.Since(began) > time.Minute || told() != 1 {
			t.Errorf("within %s it is written %d times", time.Since(began), told())
		}
		w.tellsOscar("c", "two")
		w.sameAs("c", "b")
		w.tellsOscar("c", "its own")
		w.sameAs("c", "")
		w.tellsOscar("c", "one")
		<-time.After(time.Second)
		w.sameAs("c", "a")
		if told() != 4 {
			t.Errorf("it is written %d times", told())
		}
	})
}

// TestTheSecondIsFreeWhenTheFirstIsGone.
func TestTheSecondIsFreeWhenTheFirstIsGone(t *testing.T) {
	await.InVirtualTime(t, func(t *testing.T) {
		w := newWorld(t)
		w.tellsOscar("b", "same")
		w.tellsOscar("c", "same")
		w.sameAs("c", "b")
		if _, err := w.Clusters.Remove(t.Context(), admin, "b", clusters.RemoveOptions{}); err != nil {
			t.Fatal(err)
		}
		w.sameAs("c", "")
	})
}

// TestAChangeDoesNotWaitForAClusterWithTheOSCAROfAnother, and does not call it paused.
func TestAChangeDoesNotWaitForAClusterWithTheOSCAROfAnother(t *testing.T) {
	await.InVirtualTime(t, func(t *testing.T) {
		w := newWorld(t)
		w.mustCreate()
		w.clusters["c"].does(silent) // as a syncer is that writes nothing to its OSCAR
		w.tellsOscar("b", "same")
		w.tellsOscar("c", "same")
		w.sameAs("c", "b")
		began := time.Now()
		s := send(t, strings.Replace(body, "0.5Gi", "1Gi", 1)).Service
		res, err := w.Federations.ChangeService(t.Context(), admin, federations.ChangeRequest{Service: s, Wait: time.Hour})
		if err != nil || len(res.Away) != 1 || time.Since(began) >= time.Hour {
			t.Fatalf("%+v, %v, after %s", res, err, time.Since(began))
		}
		if st := res.Away[0].Status; st.Phase != record.PhasePending || st.Reason != record.ReasonSameOscar {
			t.Errorf("%+v", st)
		}
	})
}

// TestAnOrphanOfAnotherRegistrationIsNotDeleted: two clusters have one OSCAR, and each
// finds the other one's services there.
func TestAnOrphanOfAnotherRegistrationIsNotDeleted(t *testing.T) {
	await.InVirtualTime(t, func(t *testing.T) {
		w := newWorld(t)
		if _, err := w.create(); err != nil {
			t.Fatal(err)
		}
		view, err := w.Federations.Replicas(t.Context(), admin, "grayifyr0", "")
		if err != nil {
			t.Fatal(err)
		}
		known := view.Members[1]
		for what, o := range map[string]record.Orphan{
			"it carries another cluster's mark":          {ServiceName: "lost", UID: "0199c3a2-5f11-7000-8000-00000000ffff", Generation: 1, ClusterID: "gone"},
			"its life is that of another cluster's":      {ServiceName: known.ServiceName, UID: known.UID, Generation: 1},
			"its federation is known, and it is another": {ServiceName: known.ServiceName, UID: known.UID, Generation: 2, ClusterID: known.ClusterID, Federation: view.UID},
		} {
			w.clusters["c"].does(func(s string, d *record.Desired) *record.Observed {
				if s == o.ServiceName && d.Tombstone() {
					t.Errorf("%s: its deletion is ordered: %+v", what, d)
				}
				return yes(s, d)
			})
			w.reportOrphans("c", o)
			w.eventually(func() bool {
				c, err := w.Clusters.Get(t.Context(), admin, "c")
				return err == nil && len(c.Orphans) == 1 &&
					c.Orphans[0] == v1.Orphan{ServiceName: o.ServiceName, UID: o.UID, Generation: o.Generation}
			})
			for _, keep := range []string{v1.KeepStore, v1.KeepCluster} {
				_, err := w.Recovery.Resolve(t.Context(), admin, recovery.ResolveRequest{ClusterID: "c", ServiceName: o.ServiceName, Keep: keep})
				if codeOf(t, err) != fault.CodeFailedPrecondition {
					t.Errorf("%s: keep %s: %v", what, keep, err)
				}
			}
			d, err := w.Recovery.Differences(t.Context(), admin)
			if err != nil || len(d.Differences) != 1 || !strings.Contains(d.Differences[0].Message, "same OSCAR") {
				t.Errorf("%s: %+v, %v", what, d, err)
			}
		}
	})
}
