package jobs

import (
	"encoding/json"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/oscarfed/oscarfed/api/oscar"
	"github.com/oscarfed/oscarfed/controlplane/delegation"
	"github.com/oscarfed/oscarfed/controlplane/gate"
	"github.com/oscarfed/oscarfed/controlplane/identity"
	"github.com/oscarfed/oscarfed/controlplane/view"
	"github.com/oscarfed/oscarfed/internal/clock"
	"github.com/oscarfed/oscarfed/store"
	"github.com/oscarfed/oscarfed/store/record"
	"github.com/oscarfed/oscarfed/store/seal"
)

// queues is a store with jobs that wait.
type queues struct {
	clusters, federations, each int
	// free is what each cluster has free, in millicores.
	free int64
}

// view has each federation on three clusters.
func (q queues) view(t testing.TB) *view.View {
	t.Helper()
	return view.Of(q.records(t)...)
}

func (q queues) records(t testing.TB) []store.KV {
	t.Helper()
	identity, err := seal.Generate()
	if err != nil {
		t.Fatal(err)
	}
	at := record.At(time.Now())
	var kvs []store.KV
	put := func(key string, rec any) {
		value, err := json.Marshal(rec)
		if err != nil {
			t.Fatal(err)
		}
		kvs = append(kvs, store.KV{Key: key, Value: value, CreateRevision: int64(len(kvs) + 1), ModRevision: int64(len(kvs) + 1)})
	}
	id := func(i int) string { return fmt.Sprintf("cluster-%04d", i%q.clusters) }
	for i := range q.clusters {
		put(record.ClusterKey(id(i)), record.Cluster{V: record.Version, ClusterID: id(i), State: record.ClusterActive, UID: id(i)})
		put(record.SessionKey(id(i)), record.Session{V: record.Version})
		put(record.ObservedClusterKey(id(i)), record.ObservedCluster{V: record.Version, Recipient: identity.Recipient()})
		put(record.CapacityKey(id(i)), record.Capacity{V: record.Version, Session: int64(len(kvs)) - 1, Nodes: []record.CapacityNode{{
			Name: "n", Status: record.NodeReady, CPU: record.NodeAmount{Allocatable: 64000, Free: q.free},
			Memory: record.NodeMemory{Allocatable: 64 << 30, Free: 64 << 30},
		}}})
	}
	for f := range q.federations {
		uid := fmt.Sprintf("federation-%06d", f)
		fed := record.Federation{
			V: record.Version, UID: uid, GroupID: uid, Owner: "alice", Phase: record.PhaseReady, Generation: 1,
			Topology: oscar.TopologyMesh, Delegation: oscar.DelegationStatic,
		}
		for m := range 3 {
			member := record.Member{ClusterID: id(f + m), ServiceName: uid, UID: fmt.Sprint(uid, m)}
			fed.Members = append(fed.Members, member)
			put(record.DesiredServiceKey(member.ClusterID, uid), record.Desired{V: record.Version, UID: member.UID, Federation: uid, Intent: record.IntentApply})
			put(record.ObservedServiceKey(member.ClusterID, uid), record.Observed{V: record.Version, UID: member.UID, Phase: record.PhaseReady})
		}
		put(record.FederationKey(uid), fed)
		for n := range q.each {
			job := fmt.Sprintf("job-%06d-%06d", n, f)
			put(record.JobKey(job), record.Job{
				V: record.Version, Job: job, Federation: uid, GroupID: uid, Owner: "alice", By: fmt.Sprint("user", f%50), Cluster: id(f), Service: uid,
				State: record.JobQueued, Reason: record.JobNoCandidate, AcceptedAt: at, ChangedAt: at,
			})
		}
	}
	return kvs
}

// pass is one round over the queues.
func pass(v *view.View) *round {
	need := &Needs{generation: 1, request: delegation.Request{CPU: 500, Memory: 256 << 20}}
	p := newRound(&clock.FirstSeen{}, time.Now(), Weights{}, func(*record.Federation) *Needs { return need })
	p.fill(v)
	return p
}

// What a round costs does not grow with the jobs that wait: those of a class wait behind its first
// one, and what no member has room for is not looked at closer.
func TestWhatWaitsCostsARoundNothing(t *testing.T) {
	for name, free := range map[string]int64{"full": 100, "with room": 64000} {
		few, many := queues{10, 30, 4, free}.view(t), queues{10, 30, 400, free}.view(t)
		if p := pass(many); len(p.steps) != map[bool]int{false: 0, true: assignAtOnce}[free > 500] || len(p.notes) != 0 {
			t.Fatalf("%s: %d assignments, %d notes", name, len(p.steps), len(p.notes))
		}
		cost := func(v *view.View) float64 { return testing.AllocsPerRun(5, func() { pass(v) }) }
		if a, b := cost(few), cost(many); b > a+a/10+10 {
			t.Errorf("%s: %.0f allocations for 4 jobs of each federation, and %.0f for 400", name, a, b)
		}
	}
}

// BenchmarkRound is a round over 3,000 federations with 33 jobs each, of which it can place none,
// and as many as a transaction holds.
func BenchmarkRound(b *testing.B) {
	for name, free := range map[string]int64{"full": 100, "room": 64000} {
		b.Run(name, func(b *testing.B) {
			v := queues{100, 3000, 33, free}.view(b)
			b.ResetTimer()
			for b.Loop() {
				pass(v)
			}
		})
	}
}

// A page or a count of some jobs does not cost what all that wait would.
func TestWhatWaitsCostsALookForSomeNothing(t *testing.T) {
	few, many := queues{10, 30, 4, 100}.view(t), queues{10, 30, 400, 100}.view(t)
	admin := identity.Caller{Subject: identity.Admin, Administrator: true}
	for name, q := range map[string]Query{
		"of a service": {Service: "federation-000001"}, "that failed": {States: []State{record.JobFailed}}, "all": {},
	} {
		looked := func(v *view.View) int {
			n := 0
			for p := range view.NewestOf(q.lists(v, admin)) {
				if n++; n > 100 || !q.may(v.Jobs.ByID.Head(p.ID())) {
					break
				}
			}
			return n
		}
		if n := looked(many); n > 101 {
			t.Errorf("%s: %d jobs were looked at", name, n)
		}
		if got := len(q.lists(many, admin)); got > 1 {
			t.Errorf("%s: %d lists", name, got)
		}
		cost := func(v *view.View) float64 { return testing.AllocsPerRun(5, func() { countQueued(v, admin, q) }) }
		if a, b := cost(few), cost(many); b > a+a/10+10 {
			t.Errorf("%s: a count makes %.0f allocations for 4 jobs of each federation, and %.0f for 400", name, a, b)
		}
	}
	if n := countQueued(many, admin, Query{}); n != 30*400 {
		t.Errorf("%d queued jobs are counted, not %d", n, 30*400)
	}
	if n := countQueued(many, admin, Query{ClusterID: "cluster-0003"}); n != 3*400 {
		t.Errorf("%d queued jobs came in at a cluster, not %d", n, 3*400)
	}
	if l := (Query{States: []State{record.JobFailed}}).lists(many, admin); !l[0].Empty() {
		t.Error("queued jobs are looked at for those that failed")
	}
}

// TestAJobThatWasHandedOverGoesBackToWhereItCameIn: it could not start where it was handed over to, or it failed there and is
// replayed, and there is room only where it came in.
func TestAJobThatWasHandedOverGoesBackToWhereItCameIn(t *testing.T) {
	q := queues{3, 1, 0, 64000}
	kvs := q.records(t)
	job := record.Job{
		V: record.Version, Job: "job", Federation: "federation-000000", GroupID: "federation-000000", Owner: "alice", Cluster: "cluster-0000", Service: "federation-000000",
		State: record.JobQueued, Attempt: 2, Visited: []string{"cluster-0000", "cluster-0001"}, Hops: delegation.MaxHops, Tries: 1,
		Past: []record.Attempt{{Attempt: 2, ClusterID: "cluster-0002", Place: "cluster-0002/federation-000000", State: record.JobRefused, Reason: record.JobCannotStart}},
	}
	with := func(j record.Job) *view.View {
		text, err := record.Encode(j)
		if err != nil {
			t.Fatal(err)
		}
		return view.Of(append(slices.Clone(kvs), store.KV{Key: record.JobKey(j.Job), Value: text, ModRevision: 1000})...)
	}
	if p := pass(with(job)); len(p.steps) == 0 || p.steps[0].next.Place.ClusterID == "cluster-0002" {
		t.Errorf("it is not assigned to a member that has not refused it: %d assignments", len(p.steps))
	}
	job.Frozen, job.Visited = &record.Place{ClusterID: "cluster-0002", ServiceName: "federation-000000"}, append(job.Visited, "cluster-0002")
	if p := pass(with(job)); len(p.steps) != 0 {
		t.Errorf("it goes round: to %+v", p.steps[0].next.Place)
	}
}

// TestAJobWhoseMemberHasLeftDoesNotWaitForEver: in a mesh another member takes it, otherwise a person decides.
func TestAJobWhoseMemberHasLeftDoesNotWaitForEver(t *testing.T) {
	for name, c := range map[string]struct {
		topology    string
		bucketEvent bool
		want        record.JobState
	}{
		"mesh": {oscar.TopologyMesh, false, record.JobAssigned}, "star": {oscar.TopologyStar, false, record.JobParked}, "none": {"", false, record.JobParked},
		"mesh, and its object is at that member": {oscar.TopologyMesh, true, record.JobParked},
	} {
		kvs := queues{3, 1, 0, 64000}.records(t)
		put := func(key string, rec any) {
			text, err := record.Encode(rec)
			if err != nil {
				t.Fatal(err)
			}
			kvs = append(kvs, store.KV{Key: key, Value: text, ModRevision: int64(1000 + len(kvs))})
		}
		f := *view.Of(kvs...).Federations.Get("federation-000000").Rec
		f.Topology, f.Members[1].Coordinator = c.topology, true
		put(record.FederationKey(f.UID), f)
		for i := range 3 {
			put(record.JobKey(fmt.Sprint("job-", i)), record.Job{
				V: record.Version, Job: fmt.Sprint("job-", i), Federation: f.UID, GroupID: f.GroupID, Owner: f.Owner, Cluster: "cluster-0009", Service: f.UID,
				State: record.JobQueued, BucketEvent: c.bucketEvent,
			})
		}
		need := &Needs{generation: 1, request: delegation.Request{CPU: 500, Memory: 256 << 20}, reads: true}
		p := newRound(&clock.FirstSeen{}, time.Now(), Weights{}, func(*record.Federation) *Needs { return need })
		p.fill(view.Of(kvs...))
		got := map[record.JobState]int{}
		for _, s := range p.steps {
			got[s.next.State]++
		}
		for _, s := range p.notes {
			got[s.next.State]++
		}
		if got[c.want] != 3 || len(got) != 1 {
			t.Errorf("%s: %v", name, got)
		}
	}
}

// TestAJobThatIsHeldAtAClusterThatIsRemovedGoesOn: nobody gives it back there.
func TestAJobThatIsHeldAtAClusterThatIsRemovedGoesOn(t *testing.T) {
	kvs := queues{3, 1, 0, 64000}.records(t)
	job := record.Job{
		V: record.Version, Job: "job", Federation: "federation-000000", GroupID: "federation-000000", Owner: "alice", Cluster: "cluster-0000", Service: "federation-000000",
		State: record.JobQueued, Attempt: 1, Visited: []string{"cluster-0000"}, FrozenAt: new(record.At(time.Now())),
	}
	for name, c := range map[string]struct {
		cluster, uid string
		thaws        bool
	}{"removed": {"cluster-0009", "u", true}, "registered again": {"cluster-0000", "another", true}, "as it was": {"cluster-0000", "cluster-0000", false}} {
		job.Frozen = &record.Place{ClusterID: c.cluster, ServiceName: job.Service, ClusterUID: c.uid}
		text, err := record.Encode(job)
		if err != nil {
			t.Fatal(err)
		}
		v := view.Of(append(slices.Clone(kvs), store.KV{Key: record.JobKey(job.Job), Value: text, ModRevision: 1000})...)
		p := nextStep(v, job.Job, stepConfig{now: time.Now(), seen: &clock.FirstSeen{}, lost: func(string) bool { return false }})
		if (p != nil) != c.thaws || p != nil && (p.next.Frozen != nil || p.next.State != record.JobQueued) {
			t.Errorf("%s: %+v", name, p)
		}
	}
}

// TestAPauseDoesNotGrowByWrongClocks: a step that changes a job in its pause, or notes that it waits, is written by an
// instance whose clock may be hours off.
func TestAPauseDoesNotGrowByWrongClocks(t *testing.T) {
	const pause = 2 * time.Second
	now, wrong := time.Now(), time.Now().Add(-2*time.Hour)
	kvs := queues{3, 1, 0, 0}.records(t)
	paused := record.Job{
		V: record.Version, Job: "job", Federation: "federation-000000", GroupID: "federation-000000", Owner: "alice", Cluster: "cluster-0000", Service: "federation-000000",
		State: record.JobQueued, Attempt: 1, Tries: 1, ChangedAt: record.At(now), NotBefore: new(record.At(now.Add(pause))),
	}
	with := func(j record.Job) *view.View {
		text, err := record.Encode(j)
		if err != nil {
			t.Fatal(err)
		}
		return view.Of(append(slices.Clone(kvs), store.KV{Key: record.JobKey(j.Job), Value: text, ModRevision: 1000})...)
	}
	t.Run("its holder is gone", func(t *testing.T) {
		frozen := paused
		frozen.Frozen, frozen.FrozenAt = &record.Place{ClusterID: "cluster-0009", ServiceName: frozen.Service, ClusterUID: "u"}, new(record.At(now))
		p := nextStep(with(frozen), frozen.Job, stepConfig{now: wrong, seen: &clock.FirstSeen{}, lost: func(string) bool { return false }})
		if p == nil || p.next.NotBefore == nil || p.next.NotBefore.Sub(p.next.ChangedAt.Time) != pause {
			t.Errorf("%+v", p)
		}
	})
	t.Run("it waits for room", func(t *testing.T) {
		need := &Needs{generation: 1, request: delegation.Request{CPU: 500, Memory: 256 << 20}}
		seen := &clock.FirstSeen{}
		var p *round
		for _, later := range []time.Duration{0, pause, pause + waitsFor} {
			p = newRound(seen, wrong.Add(later), Weights{}, func(*record.Federation) *Needs { return need })
			p.fill(with(paused))
		}
		if len(p.notes) != 1 || p.notes[0].next.Reason != record.JobNoCandidate || p.notes[0].next.NotBefore != nil {
			t.Errorf("%+v", p.notes)
		}
	})
}

// TestAFrozenJobWhoseEventIsLostGoesOnWhereItIs: no other member can be sent it.
func TestAFrozenJobWhoseEventIsLostGoesOnWhereItIs(t *testing.T) {
	frozen := record.Job{
		V: record.Version, Job: "job", Federation: "federation-000000", GroupID: "federation-000000", Owner: "alice", Cluster: "cluster-0000", Service: "federation-000000",
		State: record.JobQueued, Frozen: &record.Place{ClusterID: "cluster-0000", ServiceName: "federation-000000", ClusterUID: "cluster-0000"},
	}
	p := lostEvent(view.Of(queues{3, 1, 0, 0}.records(t)...), &assignStep{step: step{rev: 9, was: frozen}}, time.Now())
	i := slices.IndexFunc(p.put, func(s gate.Staged) bool { return s.Key == record.OfferAnswerKey("cluster-0000", "job") })
	if i < 0 || p.put[i].Rec.(record.OfferAnswer).Answer != record.OfferRestore || p.next.Frozen != nil || p.next.State != record.JobFailed {
		t.Errorf("%+v", p)
	}
}
