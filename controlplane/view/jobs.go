package view

import (
	"cmp"
	"fmt"
	"time"

	"github.com/oscarfed/oscarfed/store"
	"github.com/oscarfed/oscarfed/store/record"
)

// jobIndex indexes the jobs. It is part of the state, and consistent with the rest of it.
type jobIndex struct {
	ByID JobTable
	// Order lists all jobs, and Begun those that are not queued. All lists are in the order of
	// acceptance.
	Order, Begun List
	// Queued has, for a federation and an account, the queued jobs. Holds counts, for an account
	// at a cluster, the jobs of each federation that are there, by what they take.
	Queued Table[string, Table[string, Queue]]
	Holds  Table[Holder, Table[Held, int]]
	// ByFederation lists the jobs of a federation, ByCluster those that are at a cluster, and
	// Posted those that go to an endpoint.
	ByFederation, ByCluster Lists[string]
	Posted                  Table[string, bool]
	// Subjects counts, for a subject, the jobs of each federation that it owns or has sent. Services
	// counts those that came in at a service of a name, and Clusters those that came in at a cluster,
	// or are or were there.
	Subjects, Services, Clusters Table[string, Table[string, int]]
	// InFlight counts the unfinished jobs of a federation, Users those of an account, Senders those of an
	// account by federation, and States all jobs by state.
	InFlight, Users Table[string, int]
	Senders         Table[string, Table[string, int]]
	States          Table[record.JobState, int]
	Reserved        Table[string, Versioned[record.Reserved]]
	// Offered lists, for a job, the clusters that offer it, or have an answer to an offer; Offering lists, for a cluster,
	// those jobs. Frozen lists the jobs that are frozen at the cluster that offered them.
	Offered, Offering Index[string, string]
	Frozen            Table[string, bool]
	// Found lists, for a job, its attempts that clusters found after a restore, and OfFound counts, for a cluster, the
	// jobs of which there is a record since it found them.
	Found   Index[string, foundAt]
	OfFound Table[string, int]
	// Tally counts all jobs, OwnerTally those of an owner's federations, and FederationTally those
	// of a federation.
	Tally                       Tally
	OwnerTally, FederationTally Table[string, Tally]
}

// AttemptID names one attempt of a job.
type AttemptID struct {
	Job     string
	Attempt int
}

func newJobIndex() jobIndex {
	return jobIndex{
		ByID: JobTable{map[string]jobSlot{}}, Queued: tableOf(map[string]Table[string, Queue]{}), Holds: tableOf(map[Holder]Table[Held, int]{}),
		ByFederation: newLists[string](), ByCluster: newLists[string](), Posted: tableOf(map[string]bool{}),
		InFlight: tableOf(map[string]int{}), Users: tableOf(map[string]int{}), Senders: tableOf(map[string]Table[string, int]{}), States: tableOf(map[record.JobState]int{}),
		Subjects: tableOf(map[string]Table[string, int]{}), Services: tableOf(map[string]Table[string, int]{}), Clusters: tableOf(map[string]Table[string, int]{}),
		Reserved: tableOf(map[string]Versioned[record.Reserved]{}), Found: newIndex[string, foundAt](),
		OfFound: tableOf(map[string]int{}), Offered: newIndex[string, string](), Offering: newIndex[string, string](), Frozen: tableOf(map[string]bool{}),
		Tally: newTally(), OwnerTally: tableOf(map[string]Tally{}), FederationTally: tableOf(map[string]Tally{}),
	}
}

// applyJob takes over a record of a job, or of the capacity for jobs.
func (v *View) applyJob(ref record.Ref, kv store.KV, exists bool) {
	x := &v.Jobs
	switch ref.Kind {
	case record.KindJob:
		v.setJob(ref.Name, kv, exists)
		v.news.Jobs[ref.Name] = true
	case record.KindReserved:
		was := x.Reserved.m[ref.Cluster].Rec
		set(v, x.Reserved.m, ref.Cluster, kv, exists)
		v.freed(ref.Cluster, promisesMore(was, x.Reserved.m[ref.Cluster].Rec))
	case record.KindCapacity:
		n := v.node(ref.Cluster)
		was := n.Capacity.Rec
		n.Capacity = one[record.Capacity](v, kv, exists)
		v.freed(ref.Cluster, hasLess(was, n.Capacity.Rec))
	case record.KindAssignment:
		set(v, v.node(ref.Cluster).Assignments.m, AttemptID{ref.Name, ref.AttemptOf()}, kv, exists)
		v.news.Jobs[ref.Name] = true
	case record.KindJobReport:
		id := AttemptID{ref.Name, ref.AttemptOf()}
		j := x.ByID.m[ref.Name].whole // no report speaks of a job that waits
		was := v.untally(j)
		defer func() { v.news.move(j, was, v.tally(j)) }()
		set(v, v.node(ref.Cluster).Reports.m, id, kv, exists)
		r := v.node(ref.Cluster).Reports.m[id].Rec
		// A record is made for what is found, and is to name the job that its key does. Its attempt is the job's last one.
		x.Found.mark(ref.Name, foundAt{ref.Cluster, id.Attempt}, r != nil && r.Found && record.IsUID(ref.Name) && id.Attempt <= record.MaxFoundAttempt)
		v.news.Jobs[ref.Name] = true
	default:
	}
}

// applyQueued takes over the record of a queued job that is packed.
func (v *View) applyQueued(id string, q *record.QueuedJob, revision int64) {
	v.putJob(id, jobSlot{queued: q, rev: revision})
	v.news.Jobs[id] = true
}

func (v *View) setJob(id string, kv store.KV, exists bool) {
	rec, ok := decode[record.Job](v, kv, exists)
	switch {
	case !ok:
		v.putJob(id, jobSlot{})
	case rec.Job != id: // who is told of the one would find the other
		v.news.Corrupt = append(v.news.Corrupt, &store.CorruptError{Key: kv.Key, Err: fmt.Errorf("it names job %q", rec.Job)})
		v.putJob(id, jobSlot{})
	default:
		v.putJob(id, jobSlot{whole: rec, rev: kv.ModRevision})
	}
}

// putJob takes over a job; the empty slot for none.
func (v *View) putJob(id string, slot jobSlot) {
	x := &v.Jobs
	old, now := x.ByID.m[id].get().Rec, slot.get().Rec
	was := v.untally(old)
	defer func() { v.news.move(cmp.Or(now, old), was, v.tally(now)) }()
	if old != nil {
		position := PositionOf(old)
		moves := now == nil || PositionOf(now) != position
		x.count(old, -1)
		if moves {
			x.Order = x.Order.without(position)
		}
		if moves || now.Federation != old.Federation {
			x.ByFederation.mark(old.Federation, position, false)
		}
		if old.State == record.JobQueued {
			x.enqueue(old, false)
		} else if moves || now.State == record.JobQueued {
			x.Begun = x.Begun.without(position)
		}
		if at := standsAt(old); at != "" {
			x.ByCluster.mark(at, position, false)
			countFor(x.Holds, Holder{at, AccountOf(old)}, heldOf(old), -1)
		}
		delete(x.Posted.m, id)
		delete(x.Frozen.m, id)
	}
	if now == nil {
		delete(x.ByID.m, id)
		return
	}
	position := PositionOf(now)
	x.ByID.m[id] = slot
	x.count(now, 1)
	x.Order = x.Order.with(position)
	x.ByFederation.mark(now.Federation, position, true)
	if now.Frozen != nil {
		x.Frozen.m[id] = true
	}
	if now.State != record.JobQueued {
		x.Begun = x.Begun.with(position)
	}
	switch {
	case now.State == record.JobQueued:
		x.enqueue(now, true)
	case now.State.Ended() || now.Place == nil:
	case now.Place.URL != "":
		x.Posted.m[id] = true
	default:
		x.ByCluster.mark(standsAt(now), position, true)
		countFor(x.Holds, Holder{standsAt(now), AccountOf(now)}, heldOf(now), 1)
	}
}

func (x *jobIndex) count(j *record.Job, by int) {
	x.States.m[j.State] += by
	countFor(x.Subjects, j.Owner, j.Federation, by)
	if j.By != j.Owner {
		countFor(x.Subjects, j.By, j.Federation, by)
	}
	countFor(x.Services, j.Service, j.Federation, by)
	for _, cluster := range j.Clusters() {
		countFor(x.Clusters, cluster, j.Federation, by)
	}
	if j.OfFound() {
		addTo(x.OfFound.m, j.Cluster, by)
	}
	if !j.State.Ended() {
		addTo(x.InFlight.m, j.Federation, by)
		addTo(x.Users.m, AccountOf(j), by)
		countFor(x.Senders, AccountOf(j), j.Federation, by)
	}
}

// countFor adds by to the number of jobs of a kind that a table has for a key.
func countFor[K, Of comparable](table Table[K, Table[Of, int]], key K, of Of, by int) {
	counts := table.m[key].m
	if counts == nil {
		counts = map[Of]int{}
		table.m[key] = tableOf(counts)
	}
	if addTo(counts, of, by); len(counts) == 0 {
		delete(table.m, key)
	}
}

// AccountOf is the account that a job counts for: its sender, or the owner of the service whose
// token was used.
func AccountOf(j *record.Job) string { return accountOf(j.By, j.Owner) }

func accountOf(by, owner string) string { return cmp.Or(by, owner) }

// Session is the create revision of a cluster's session; 0 for none.
func (v *View) Session(cluster string) int64 {
	if n := v.Nodes.m[cluster]; n != nil && n.Session.Rec != nil {
		return n.Session.Rev // it is put once
	}
	return 0
}

// Listed says whether a cluster has reported every attempt among its jobs in the present epoch.
func (v *View) Listed(cluster string) bool {
	n := v.Nodes.m[cluster]
	return n != nil && n.Self.Rec != nil && n.Self.Rec.JobsEpoch == v.Epoch() && v.Compared(cluster)
}

// standsAt is the cluster that has the attempt of a job; empty for none.
func standsAt(j *record.Job) string {
	if j.State == record.JobQueued || j.State.Ended() || j.Place == nil || j.Place.URL != "" {
		return ""
	}
	return j.Place.ClusterID
}

// foundAt names an attempt that was found on a cluster.
type foundAt struct {
	Cluster string
	Attempt int
}

// applyOffer takes over an offer or an answer.
func (v *View) applyOffer(ref record.Ref, kv store.KV, exists bool) {
	n := v.node(ref.Cluster)
	if ref.Kind == record.KindOffer {
		// A record is made for the job, as for one that is found.
		set(v, n.Offers.m, ref.Name, kv, exists && record.IsUID(ref.Name))
	} else {
		set(v, n.Answers.m, ref.Name, kv, exists)
	}
	_, offer := n.Offers.m[ref.Name]
	_, answer := n.Answers.m[ref.Name]
	v.Jobs.Offered.mark(ref.Name, ref.Cluster, offer || answer)
	v.Jobs.Offering.mark(ref.Cluster, ref.Name, offer || answer)
	v.news.Jobs[ref.Name], v.news.Capacity = true, true
}

// freed notes a change of what a cluster has free; less says that it has no more than before.
func (v *View) freed(cluster string, less bool) {
	v.news.Capacity = true
	if !less {
		v.news.Freed[cluster] = true
	}
}

// promisesMore says whether a cluster's reserved capacity has only grown.
func promisesMore(was, now *record.Reserved) bool {
	if was == nil || now == nil {
		return was == nil
	}
	count := map[record.Room]int64{}
	for _, p := range now.Jobs {
		count[p.Room] += p.Count
	}
	for _, p := range was.Jobs {
		count[p.Room] -= p.Count
	}
	for _, n := range count {
		if n < 0 {
			return false
		}
	}
	return true
}

// hasLess says whether no node of a cluster has more free than before.
func hasLess(was, now *record.Capacity) bool {
	if was == nil || now == nil || was.Session != now.Session || was.FailingSince != nil || now.Unlisted != nil || len(now.Nodes) > len(was.Nodes) {
		return now == nil
	}
	nodes := map[string]record.CapacityNode{}
	for _, n := range was.Nodes {
		nodes[n.Name] = n
	}
	for _, n := range now.Nodes {
		old, ok := nodes[n.Name]
		if !ok || n.Status != old.Status || n.CPU.Free > old.CPU.Free || n.Memory.Free > old.Memory.Free || n.GPU.Free > old.GPU.Free {
			return false
		}
	}
	return true
}

// TimeOf is the time of a record; nil for none.
func TimeOf(t *record.Time) *time.Time {
	if t == nil {
		return nil
	}
	return &t.Time
}
