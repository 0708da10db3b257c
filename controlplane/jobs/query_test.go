package jobs

import (
	"encoding/json"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/oscarfed/oscarfed/controlplane/identity"
	"github.com/oscarfed/oscarfed/controlplane/view"
	"github.com/oscarfed/oscarfed/store"
	"github.com/oscarfed/oscarfed/store/record"
)

// mixed is a job of each minute, oldest first, of two federations in turn; the last three wait. Every other one was
// offered: the later its acceptance, the smaller its id.
func mixed(t *testing.T) (v *view.View, ids []string, at []time.Time) {
	t.Helper()
	var kvs []store.KV
	for i := range 10 {
		accepted := time.Date(2026, 5, 1, 12, i, 0, 0, time.UTC)
		federation := string("ab"[i/2%2])
		j := record.Job{
			V: record.Version, Job: record.FirstUID(accepted) + "7000-8000-000000000000", Federation: federation, GroupID: federation,
			Owner: "owner", Cluster: "cluster", Service: "service", State: record.JobSucceeded,
			AcceptedAt: record.At(accepted), ChangedAt: record.At(accepted),
		}
		if i%2 == 1 {
			j.Offered, j.Job = true, fmt.Sprintf("%x0000000-0000-4000-8000-000000000000", 15-i)
		}
		if i > 6 {
			j.State = record.JobQueued
		}
		kvs = append(kvs, stored(t, &j, int64(i+1)))
		ids, at = append(ids, j.Job), append(at, accepted)
	}
	return view.Of(kvs...), ids, at
}

// stored is a job as the store has it.
func stored(t *testing.T, j *record.Job, revision int64) store.KV {
	t.Helper()
	value, err := json.Marshal(j)
	if err != nil {
		t.Fatal(err)
	}
	return store.KV{Key: record.JobKey(j.Job), Value: value, CreateRevision: revision, ModRevision: revision}
}

// Offered Jobs have ids that are not in the order of time.
func TestOfferedJobsAreListedByWhenTheyWereAccepted(t *testing.T) {
	v, ids, at := mixed(t)
	admin := identity.Caller{Subject: identity.Admin, Administrator: true}
	for _, tt := range []struct {
		q    Query
		want []int
	}{
		{Query{}, []int{9, 8, 7, 6, 5, 4, 3, 2, 1, 0}},
		{Query{Service: "service"}, []int{9, 8, 7, 6, 5, 4, 3, 2, 1, 0}},
		{Query{Federation: "b"}, []int{7, 6, 3, 2}},
		{Query{Since: at[5]}, []int{9, 8, 7, 6, 5}},
		{Query{Until: at[5]}, []int{4, 3, 2, 1, 0}},
		{Query{Since: at[3], Until: at[9], Federation: "a"}, []int{8, 5, 4}},
		{Query{Since: at[3], States: []State{record.JobSucceeded}}, []int{6, 5, 4, 3}},
		{Query{Since: at[8], States: []State{record.JobQueued}}, []int{9, 8}},
	} {
		var want, got []string
		for _, i := range tt.want {
			want = append(want, ids[i])
		}
		for q, more := tt.q, true; more; {
			q.Limit = 1
			var list []Job
			list, more = page(v, admin, q)
			got, q.Before = append(got, list[0].ID), list[0].Position
		}
		if !slices.Equal(got, want) {
			t.Errorf("%+v: %q, want %q", tt.q, got, want)
		}
		if tt.q.States != nil {
			continue
		}
		n := 0
		for _, of := range count(v, admin, tt.q) {
			n += of
		}
		if n != len(want) {
			t.Errorf("%+v: %d are counted, want %d", tt.q, n, len(want))
		}
	}
}

// A view that was away sees a Job that was forgotten and offered again as one change.
func TestAJobThatIsOfferedAgainIsListedOnce(t *testing.T) {
	v, ids, at := mixed(t)
	again := *v.Jobs.ByID.Get(ids[1]).Rec
	again.AcceptedAt = record.At(at[9].Add(time.Minute))
	v = view.Of(stored(t, v.Jobs.ByID.Get(ids[1]).Rec, 1), stored(t, &again, 2))
	if list, _ := page(v, identity.Caller{Administrator: true}, Query{}); len(list) != 1 || v.Jobs.Order.Len() != 1 || v.Jobs.Begun.Len() != 1 || v.Jobs.ByFederation.Of("a").Len() != 1 {
		t.Errorf("it is listed %d times", len(list))
	}
}

func TestOfferedJobsAreForgottenOldestFirst(t *testing.T) {
	v, ids, _ := mixed(t)
	var got []string
	for _, j := range oldJobs(endedJobs(v), func(int64) bool { return false }, Kept{2, 100, 100}) {
		got = append(got, j.id)
	}
	if want := []string{ids[2], ids[1], ids[0]}; !slices.Equal(got, want) { // a: 0 1 4 5, b: 2 3 6
		t.Errorf("forgotten are %q, not %q", got, want)
	}
}

// TestAJobIsNotFoundByAClusterThatRefusedIt: it came in at one, was refused by another one, and runs at a third.
func TestAJobIsNotFoundByAClusterThatRefusedIt(t *testing.T) {
	at := record.At(time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC))
	moved := record.Job{
		V: record.Version, Job: record.NewUID(), Federation: "f", GroupID: "f", Owner: "owner", Cluster: "a", Service: "service", State: record.JobRunning,
		Attempt: 4, Place: &record.Place{ClusterID: "c", ServiceName: "s"}, AcceptedAt: at, ChangedAt: at,
		Past: []record.Attempt{
			{Attempt: 1, ClusterID: "b", Place: "b/s", State: record.JobRefused, EndedAt: at}, {Attempt: 2, Place: "https://e", State: record.JobRefused, EndedAt: at},
			{Attempt: 3, ClusterID: "b", Place: "b/s", State: record.JobRefused, EndedAt: at},
		},
	}
	waits := moved
	waits.Job, waits.State, waits.Place = record.NewUID(), record.JobQueued, nil
	for _, j := range []record.Job{moved, waits} {
		v := view.Of(stored(t, &j, 1))
		for cluster, want := range map[string]int{"a": 1, "b": 1, "c": 1, "d": 0} {
			if cluster == "c" && j.Place == nil {
				want = 0
			}
			q := Query{ClusterID: cluster}
			list, _ := page(v, identity.Caller{Administrator: true}, q)
			if n := count(v, identity.Caller{Administrator: true}, q)[j.State]; len(list) != want || n != want {
				t.Errorf("%s, cluster %s: %d are listed, %d counted, want %d", j.State, cluster, len(list), n, want)
			}
		}
	}
}
