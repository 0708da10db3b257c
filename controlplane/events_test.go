package controlplane_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	v1 "github.com/oscarfed/oscarfed/api/v1"
	"github.com/oscarfed/oscarfed/controlplane"
	"github.com/oscarfed/oscarfed/controlplane/events"
	"github.com/oscarfed/oscarfed/controlplane/identity"
	"github.com/oscarfed/oscarfed/controlplane/jobs"
	"github.com/oscarfed/oscarfed/controlplane/watch"
	"github.com/oscarfed/oscarfed/store"
	"github.com/oscarfed/oscarfed/store/record"
	"github.com/oscarfed/oscarfed/test/await"
)

// happened are the reasons of the events that a caller sees, the oldest first.
func (w *world) happened(caller identity.Caller, q events.Query) (reasons []string, all *v1.SystemEvents) {
	w.t.Helper()
	all, _, err := w.Events.List(w.t.Context(), caller, q)
	if err != nil {
		w.t.Fatal(err)
	}
	for _, e := range all.Events {
		reasons = append(reasons, e.Reason)
	}
	slices.Reverse(reasons)
	return reasons, all
}

// TestWhatHasHappenedIsTold: a creation, a cluster that goes, and one that is cordoned; each reader
// sees what he may, and a hostile sentence of a syncer stays what it is.
func TestWhatHasHappenedIsTold(t *testing.T) {
	await.InVirtualTime(t, func(t *testing.T) {
		w := newWorld(t)
		began, _ := w.happened(admin, events.Query{Kinds: []string{v1.AboutFederation}})
		if len(began) != 0 {
			t.Fatalf("before anything: %v", began)
		}
		w.mustCreate()
		all, list := w.happened(admin, events.Query{Kinds: []string{v1.AboutFederation}})
		if !slices.Equal(all, []string{"CreationBegun", "Created"}) || list.Since.IsZero() || list.Revision == 0 {
			t.Fatalf("%v of %+v", all, list)
		}
		if none, _ := w.happened(identity.Caller{Subject: "eve"}, events.Query{Kinds: []string{v1.AboutFederation}}); len(none) != 0 {
			t.Errorf("a stranger sees %v", none)
		}
		const hostile = "<img src=x onerror=alert(1)> \x1b[31m"
		owner := list.Events[0].Owner
		w.put(record.ClusterKey("z"), record.Cluster{V: 1, ClusterID: "z", UID: "uz", State: record.ClusterActive})
		w.put(record.ObservedClusterKey("z"), record.ObservedCluster{V: 1, Reason: record.ReasonOscarUnreachable, Message: hostile})
		w.put(record.ClusterKey("z"), record.Cluster{V: 1, ClusterID: "z", UID: "uz", State: record.ClusterCordoned})
		<-time.After(time.Second)
		synctest.Wait()
		about, list := w.happened(identity.Caller{Subject: owner}, events.Query{ClusterID: "z"})
		if !slices.Equal(about, []string{"ClusterRegistered", "ClusterTrouble", "ClusterCordoned"}) {
			t.Fatalf("of the cluster: %v", about)
		}
		if e := list.Events[1]; e.Hint == "" || e.Cause != string(record.ReasonOscarUnreachable) || e.Message != "the syncer cannot work with the OSCAR of the cluster" {
			t.Errorf("a user is told %+v", e)
		}
		_, list = w.happened(admin, events.Query{ClusterID: "z", Limit: 2})
		if got := list.Events[1].Message; got != "the syncer cannot work with the OSCAR of the cluster: <img src=x onerror=alert(1)>  [31m" {
			t.Errorf("the administrator is told %q", got)
		}
	})
}

// TestAListOfEventsIsContinuedAtAnotherInstance, which counts its events otherwise: none is left out, and those of the last
// revision of the page may come twice.
func TestAListOfEventsIsContinuedAtAnotherInstance(t *testing.T) {
	await.InVirtualTime(t, func(t *testing.T) {
		w := newWorld(t)
		w.mustCreate() // what the second instance does not know
		second := startControlPlane(t, w.net.Open(t, "second", store.Config{}), w.identity)
		for n := range 10 {
			w.put(record.ClusterKey("z"), record.Cluster{V: 1, ClusterID: "z", UID: fmt.Sprint("u", n), State: record.ClusterActive})
			<-time.After(time.Second)
		}
		synctest.Wait()
		page := func(at *controlplane.ControlPlane, next string) ([]v1.SystemEvent, string) {
			list, next, err := at.Events.List(t.Context(), admin, events.Query{ClusterID: "z", Limit: 4, Continue: next})
			if err != nil {
				t.Fatal(err)
			}
			return list.Events, next
		}
		list, _, err := w.Events.List(t.Context(), admin, events.Query{ClusterID: "z"})
		if err != nil {
			t.Fatal(err)
		}
		var all []int64
		for _, e := range list.Events {
			all = append(all, e.Revision)
		}
		for name, turns := range map[string][]*controlplane.ControlPlane{
			"the first, and then the second": {w.ControlPlane, second, second},
			"the second, and then the first": {second, w.ControlPlane, w.ControlPlane},
			"in turn":                        {w.ControlPlane, second, w.ControlPlane},
			"one":                            {second, second, second},
		} {
			var got []int64 // their revisions
			next := ""
			for i, at := range turns {
				var some []v1.SystemEvent
				some, next = page(at, next)
				if again := i > 0 && at != turns[i-1]; again && some[0].Revision == got[len(got)-1] {
					some = some[1:]
				}
				for _, e := range some {
					got = append(got, e.Revision)
				}
			}
			if next != "" || !slices.Equal(got, all) {
				t.Errorf("%s: %v, then %q; there are %v", name, got, next, all)
			}
		}
	})
}

// TestEventsKeepWhatWasPrivate: what happened while a federation was private is not shown once it is public.
func TestEventsKeepWhatWasPrivate(t *testing.T) {
	await.InVirtualTime(t, func(t *testing.T) {
		w := newWorld(t)
		w.mustCreate()
		eve, of := identity.Caller{Subject: "eve"}, events.Query{Kinds: []string{v1.AboutFederation}}
		w.visibleTo("public")
		before, _ := w.happened(eve, of)
		if slices.Contains(before, "CreationBegun") || slices.Contains(before, "Created") {
			t.Errorf("what was private is shown: %v", before)
		}
		if _, err := w.Federations.Pause(t.Context(), admin, "grayifyr0", "", "", true); err != nil {
			t.Fatal(err)
		}
		if after, _ := w.happened(eve, of); !slices.Contains(after, "Paused") {
			t.Errorf("what is public is not shown: %v", after)
		}
		if all, _ := w.happened(admin, of); !slices.Contains(all, "CreationBegun") {
			t.Errorf("the owner sees %v", all)
		}
	})
}

// TestEventsAndJobsAreWatched: one that begins anew is told the last ones, and one that resumes is
// told what came after its bookmark, once.
func TestEventsAndJobsAreWatched(t *testing.T) {
	await.InVirtualTime(t, func(t *testing.T) {
		w := newJobWorld(t)
		q := watch.Query{Kinds: []string{v1.EventHappened, v1.EventJob}}
		read := func(since int64, stop func(kinds map[string]int) bool) (kinds map[string]int, mark v1.Bookmark) {
			kinds = map[string]int{}
			q.Since = since
			err := w.Watch.Follow(t.Context(), admin, q, watch.Watcher{
				Event: func(e v1.Event) error {
					if e.Event == nil && e.Job == nil {
						t.Errorf("told %+v", e)
					}
					kinds[e.Kind]++
					return nil
				},
				Bookmark: func(b v1.Bookmark) error {
					if mark = b; stop(kinds) {
						return errSeen
					}
					return nil
				},
			})
			if !errors.Is(err, errSeen) {
				t.Fatal(err)
			}
			return kinds, mark
		}
		kinds, mark := read(0, func(map[string]int) bool { return true })
		if kinds[v1.EventHappened] < 2 || kinds[v1.EventJob] != 0 {
			t.Fatalf("at first: %v", kinds)
		}
		j := w.submit()
		w.at(j.ID)
		w.addCluster("z")
		read(mark.Revision, func(kinds map[string]int) bool { return kinds[v1.EventJob] > 0 && kinds[v1.EventHappened] > 0 })
	})
}

// TestJobsAreCounted: by state, by cluster and by edge, for those who may see them; and in steps.
func TestJobsAreCounted(t *testing.T) {
	await.InVirtualTime(t, func(t *testing.T) {
		w := newJobWorld(t)
		p, j := w.at(w.submit().ID)
		for _, state := range whole()[:3] {
			p.says(j.ID, 1, state)
		}
		state := string(w.is(j.ID, whole()[2]).State)
		<-time.After(25 * time.Second)
		synctest.Wait()
		for _, caller := range []identity.Caller{admin, {Subject: j.Owner}} {
			got, err := w.Stats.Stats(t.Context(), caller, "")
			if err != nil || got.Jobs[state] != 1 || len(got.Clusters) != 1 || got.Clusters[0].ClusterID != j.Place.ClusterID {
				t.Fatalf("%s: %v %+v", caller, err, got)
			}
			if s := got.Series; s == nil || len(s.Running) < 2 || s.Running[len(s.Running)-1] != 1 || len(s.WaitSeconds) != len(s.Queued) {
				t.Errorf("%s: %+v", caller, s)
			}
		}
		got, err := w.Stats.Stats(t.Context(), admin, j.GroupID)
		handed := j.Place.ClusterID != j.ClusterID
		if err != nil || got.Series != nil || handed != (len(got.Edges) == 1) || got.Jobs[state] != 1 {
			t.Errorf("of the federation: %v %+v", err, got)
		}
		if none, err := w.Stats.Stats(t.Context(), identity.Caller{Subject: "eve"}, ""); err != nil || len(none.Jobs) != 0 || none.Series != nil {
			t.Errorf("a stranger: %v %+v", err, none)
		}
		if _, err := w.Stats.Stats(t.Context(), identity.Caller{Subject: "eve"}, j.GroupID); err == nil {
			t.Error("a stranger counts the jobs of a federation")
		}
		// An end is counted once, though its report is taken into the record after it.
		for _, state := range whole()[3:] {
			p.says(j.ID, 1, state)
		}
		w.becomes(j.ID, func(j *jobs.Job) bool { return j.State == record.JobSucceeded })
		<-time.After(25 * time.Second)
		synctest.Wait()
		started, succeeded := 0, 0
		if got, err = w.Stats.Stats(t.Context(), admin, ""); err != nil {
			t.Fatal(err)
		}
		for i := range got.Series.Started {
			started, succeeded = started+got.Series.Started[i], succeeded+got.Series.Succeeded[i]
		}
		if started != 1 || succeeded != 1 {
			t.Errorf("%d were started, %d have succeeded", started, succeeded)
		}
	})
}
