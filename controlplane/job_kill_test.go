package controlplane_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/oscarfed/oscarfed/controlplane"
	"github.com/oscarfed/oscarfed/controlplane/fault"
	"github.com/oscarfed/oscarfed/controlplane/jobs"
	"github.com/oscarfed/oscarfed/store/record"
	"github.com/oscarfed/oscarfed/test/await"
)

// TestAnInstanceEndsAtEveryJobStep: just before, or just after, the transaction of each
// step. Another one takes it from there, and no promise is broken at any revision.
func TestAnInstanceEndsAtEveryJobStep(t *testing.T) {
	refuses := []record.JobState{record.JobClaimed, record.JobSubmitting, record.JobRefused}
	first := func(states []record.JobState) func(string, int) []record.JobState {
		return func(_ string, n int) []record.JobState {
			if n == 1 {
				return states
			}
			return whole()
		}
	}
	scenarios := map[string]struct {
		// does is what the clusters report of an attempt, and cordon whether the first
		// cluster is told to take nothing.
		does   func(job string, n int) []record.JobState
		cordon bool
		want   record.JobState
	}{
		"accept":   {does: first(whole()), want: record.JobSucceeded},
		"assign":   {does: first(whole()), want: record.JobSucceeded},
		"running":  {does: first(whole()[:4]), want: record.JobRunning},
		"end":      {does: first(whole()), want: record.JobSucceeded},
		"requeue":  {does: first(refuses), want: record.JobSucceeded},
		"park":     {does: func(string, int) []record.JobState { return refuses }, want: record.JobParked},
		"withdraw": {does: first(nil), cordon: true, want: record.JobSucceeded},
	}
	var points []string
	for name := range scenarios {
		points = append(points, "before_job_"+name, "after_job_"+name)
	}
	slices.Sort(points)
	for _, point := range points {
		_, name, _ := strings.Cut(point, "_job_")
		s := scenarios[name]
		t.Run(point, func(t *testing.T) {
			await.InVirtualTime(t, func(t *testing.T) {
				w := newJobWorld(t)
				w.stop() // the healthy one comes later
				dead := w.mortal("controlplane." + point)
				for _, p := range w.clusters {
					p.acts(s.does)
				}
				id, err := w.submitKeyed()
				if err == nil && s.cordon {
					at := w.is(id, record.JobAssigned)
					if _, err := w.Clusters.SetState(t.Context(), admin, at.Place.ClusterID, string(record.ClusterCordoned)); err != nil {
						t.Fatal(err)
					}
				}
				select {
				case <-dead:
				case <-time.After(patience):
					t.Fatal("it was never there")
				}
				w.ControlPlane = w.second()
				again, err := w.submitKeyed()
				if err != nil || id != "" && again != id {
					t.Fatalf("first %q, then %q, %v", id, again, err)
				}
				w.is(again, s.want)
				if n := len(w.keys(record.JobsPrefix)); n != 1 {
					t.Errorf("there are %d jobs", n)
				}
			})
		})
	}
}

// TestAnUnknownOutcomeIsLookedUpAtTheJobThatIsThere: a first try has made one, and the second, with the same key, would
// make none.
func TestAnUnknownOutcomeIsLookedUpAtTheJobThatIsThere(t *testing.T) {
	await.InVirtualTime(t, func(t *testing.T) {
		w := newJobWorld(t)
		w.stop()
		var told []string
		for _, point := range []string{"after_job_accept", "before_job_accept"} {
			dead := w.mortal("controlplane." + point)
			_, err := w.submitKeyed()
			e, ok := errors.AsType[*fault.Error](err)
			if !ok || e.Code != fault.CodeUnknownOutcome {
				t.Fatalf("%s: %v", point, err)
			}
			<-dead
			told = append(told, e.Location)
		}
		w.ControlPlane = w.second()
		id, err := w.submitKeyed()
		if err != nil {
			t.Fatal(err)
		}
		for _, at := range told {
			if at != "/system/jobs/"+id {
				t.Errorf("the job is %s, and it was to be looked up at %q", id, at)
			}
		}
	})
}

// submitKeyed sends the one job of the test; it may have been accepted before.
func (w *world) submitKeyed() (string, error) {
	ctx, cancel := context.WithTimeout(w.t.Context(), 20*time.Second)
	defer cancel()
	j, err := w.Jobs.Submit(ctx, admin, jobs.Request{Service: "grayifyr0", Event: []byte(secretEvent), IdempotencyKey: "the same"})
	if err != nil {
		return "", err
	}
	return j.ID, nil
}

// mortal starts an instance in the place of the world's that ends at a fail point.
func (w *world) mortal(point string) <-chan struct{} {
	dead := make(chan struct{})
	var once sync.Once
	ctx, cancel := context.WithCancel(w.t.Context())
	cfg := controlplane.Config{Store: w.store, Identity: w.identity, DefaultCluster: "a", FailPoint: func(at string) {
		if at == point {
			once.Do(func() { close(dead) })
			cancel()
		}
	}}
	cp, err := controlplane.New(cfg)
	if err != nil {
		w.t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := cp.Run(ctx); err != nil {
			w.t.Error(err)
		}
	}()
	w.t.Cleanup(func() {
		cancel()
		<-done
	})
	select {
	case <-cp.Ready():
	case <-time.After(patience):
		w.t.Fatal("it was never ready")
	}
	w.ControlPlane = cp
	return dead
}
