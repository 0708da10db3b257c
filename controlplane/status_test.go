package controlplane_test

import (
	"errors"
	"testing"
	"time"

	"github.com/oscarfed/oscarfed/api/oscar"
	"github.com/oscarfed/oscarfed/controlplane/federations"
	"github.com/oscarfed/oscarfed/controlplane/view"
	"github.com/oscarfed/oscarfed/store/record"
	"github.com/oscarfed/oscarfed/test/await"
)

// trying reports a step that OSCAR answers 500 to, and that is tried again.
func trying(intent record.Intent, phase record.Phase, reason record.Reason, operation string) func(string, *record.Desired) *record.Observed {
	return func(service string, d *record.Desired) *record.Observed {
		if d.Intent == intent {
			return &record.Observed{Phase: phase, Reason: reason, Operation: operation, Status: 500, Message: "boom"}
		}
		return yes(service, d)
	}
}

// TestAReplicaWhoseOscarAnswers500SaysSo while it is tried again, and that ends no
// creation.
func TestAReplicaWhoseOscarAnswers500SaysSo(t *testing.T) {
	await.InVirtualTime(t, func(t *testing.T) {
		w := newWorld(t)
		w.clusters["c"].does(trying(record.IntentApply, record.PhaseApplying, record.ReasonCreateFailed, "create"))
		done := make(chan error, 1)
		go func() {
			_, err := w.create()
			done <- err
		}()
		var st *view.Status
		w.eventually(func() bool {
			v, err := w.Federations.Replicas(t.Context(), admin, "grayifyr0", "")
			if err != nil || v.Phase != record.PhaseApplying {
				return false
			}
			st = v.Members[2].Status
			return st.Reason != ""
		})
		if st.Phase != record.PhaseApplying || st.Reason != record.ReasonCreateFailed || st.Message != "create answered 500: boom; it is tried again" {
			t.Errorf("%+v", st)
		}
		w.clusters["c"].does(yes)
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

// TestARemovedMemberIsShownUntilItIsGone with what its deletion waits for.
func TestARemovedMemberIsShownUntilItIsGone(t *testing.T) {
	await.InVirtualTime(t, func(t *testing.T) {
		w := newWorld(t)
		w.mustCreate()
		leaving := func() *view.Status {
			f, err := w.Federations.Get(t.Context(), admin, "grayifyr0")
			if err != nil {
				t.Fatal(err)
			}
			if len(f.Leaving) == 0 {
				return nil
			}
			return f.Leaving[0].Status
		}
		w.clusters["c"].does(func(service string, d *record.Desired) *record.Observed {
			if d.Tombstone() {
				return &record.Observed{Phase: record.PhaseDeleting, Reason: record.ReasonJobsRunning, Message: "jobs of the service are running"}
			}
			return yes(service, d)
		})
		if _, err := w.Federations.ChangeReplicas(t.Context(), admin, "grayifyr0", federations.ReplicasRequest{Remove: []oscar.Member{member("c", "grayifyr2")}}); err != nil {
			t.Fatal(err)
		}
		w.eventually(func() bool { st := leaving(); return st != nil && st.Reason == record.ReasonJobsRunning })
		if st := leaving(); st.Phase != record.PhaseDeleting || st.Message == "" {
			t.Errorf("%+v", st)
		}
		w.clusters["c"].disconnect()
		w.eventually(func() bool { st := leaving(); return st != nil && st.Reason == record.ReasonSessionLost })
		w.clusters["c"].connect()
		w.clusters["c"].does(yes)
		w.eventually(func() bool { return leaving() == nil })
	})
}

// TestAWatchFromARevisionThatTheStoreDoesNotHaveIsNotSilent: the store was restored,
// and its revisions begin behind what the client saw.
func TestAWatchFromARevisionThatTheStoreDoesNotHaveIsNotSilent(t *testing.T) {
	await.InVirtualTime(t, func(t *testing.T) {
		w := newWorld(t)
		w.mustCreate()
		enough := errors.New("enough")
		ahead := w.revision() + 1000
		err := w.Federations.WatchReplicas(t.Context(), admin, "grayifyr0", "", ahead, func(v *view.Replicas) error {
			if v.StreamRevision >= ahead || v.Phase != record.PhaseReady {
				t.Errorf("%+v", v)
			}
			return enough
		})
		if !errors.Is(err, enough) {
			t.Error(err)
		}
	})
}

// TestAQuietWatchFromThePresentRevisionTellsOnlyWhatIsNew.
func TestAQuietWatchFromThePresentRevisionTellsOnlyWhatIsNew(t *testing.T) {
	await.InVirtualTime(t, func(t *testing.T) {
		w := newWorld(t)
		w.mustCreate()
		w.eventually(func() bool {
			v, err := w.Federations.Replicas(t.Context(), admin, "grayifyr0", "")
			return err == nil && v.StreamRevision == w.revision()
		})
		enough := errors.New("enough")
		done := make(chan error, 1)
		began := w.revision()
		go func() {
			done <- w.Federations.WatchReplicas(t.Context(), admin, "grayifyr0", "", began, func(v *view.Replicas) error {
				if v.Generation != 2 {
					t.Errorf("told of generation %d again", v.Generation)
				}
				return enough
			})
		}()
		if _, err := w.changeReplicas(federations.ReplicasRequest{Remove: []oscar.Member{member("c", "grayifyr2")}}); err != nil {
			t.Fatal(err)
		}
		select {
		case err := <-done:
			if !errors.Is(err, enough) {
				t.Error(err)
			}
		case <-time.After(time.Minute):
			t.Error("the change was not told")
		}
	})
}
