package view

import (
	"slices"
	"time"

	"github.com/oscarfed/oscarfed/store"
	"github.com/oscarfed/oscarfed/store/record"
)

// jobIndex indexes the jobs. It is part of the state, and consistent with the rest of it.
type jobIndex struct {
	ByID Table[string, Versioned[record.Job]]
	// Order lists all jobs by id, which is the order of acceptance.
	Order []string
	// Queued lists, for a federation and an account, the queued jobs in that order. Holds
	// counts the jobs that are at a cluster.
	Queued Table[string, map[string][]string]
	Holds  Table[Holding, int]
	// Of lists the jobs of a federation, On those that are at a cluster, and Posted those that
	// go to an endpoint.
	Of, On Table[string, map[string]bool]
	Posted Table[string, bool]
	// InFlight counts the unfinished jobs of a federation, Users those of an account, and
	// States all jobs by state.
	InFlight, Users Table[string, int]
	States          Table[record.JobState, int]
	Reserved        Table[string, Versioned[record.Reserved]]
	// Offered lists, for a job, the clusters that offer it. Frozen lists the jobs that are
	// frozen at the cluster that offered them.
	Offered Table[string, map[string]bool]
	Frozen  Table[string, bool]
	// Found lists, for a job, its attempts that clusters found after a restore.
	Found Table[string, map[foundAt]bool]
}

// AttemptID names one attempt of a job.
type AttemptID struct {
	Job     string
	Attempt int
}

func newJobIndex() jobIndex {
	return jobIndex{
		ByID: TableOf(map[string]Versioned[record.Job]{}), Queued: TableOf(map[string]map[string][]string{}), Holds: TableOf(map[Holding]int{}),
		Of: TableOf(map[string]map[string]bool{}), On: TableOf(map[string]map[string]bool{}), Posted: TableOf(map[string]bool{}),
		InFlight: TableOf(map[string]int{}), Users: TableOf(map[string]int{}), States: TableOf(map[record.JobState]int{}),
		Reserved: TableOf(map[string]Versioned[record.Reserved]{}), Found: TableOf(map[string]map[foundAt]bool{}),
		Offered: TableOf(map[string]map[string]bool{}), Frozen: TableOf(map[string]bool{}),
	}
}

// applyJob takes over a key of a job; false when it is none.
func (v *View) applyJob(ref record.Ref, kv store.KV, exists bool) bool {
	x := &v.Jobs
	if v.applyOffer(ref, kv, exists) {
		return true
	}
	switch ref.Kind {
	case record.KindJob:
		v.setJob(ref.Name, kv, exists)
		v.news.Jobs[ref.Name] = true
	case record.KindReserved:
		set(v, x.Reserved.m, ref.Cluster, kv, exists)
		v.news.Capacity = true
	case record.KindCapacity:
		n := v.node(ref.Cluster)
		n.Capacity = one(v, n.Capacity, true, kv, exists)
		v.news.Capacity = true
	case record.KindAssignment:
		set(v, v.node(ref.Cluster).Assignments.m, AttemptID{ref.Name, ref.AttemptOf()}, kv, exists)
		v.news.Jobs[ref.Name] = true
	case record.KindJobReport:
		id := AttemptID{ref.Name, ref.AttemptOf()}
		set(v, v.node(ref.Cluster).Reports.m, id, kv, exists)
		r := v.node(ref.Cluster).Reports.m[id].Rec
		x.noteFound(ref.Name, foundAt{ref.Cluster, id.Attempt}, r != nil && r.Found)
		v.news.Jobs[ref.Name] = true
	default:
		return false
	}
	return true
}

func (v *View) setJob(id string, kv store.KV, exists bool) {
	x := &v.Jobs
	if old, ok := x.ByID.m[id]; ok {
		x.count(old.Rec, -1)
		mark(x.Of.m, old.Rec.Federation, id, false)
		if old.Rec.State == record.JobQueued {
			x.enqueue(old.Rec, false)
		}
		if at := standsAt(old.Rec); at != "" {
			mark(x.On.m, at, id, false)
			x.hold(old.Rec, at, -1)
		}
		delete(x.Posted.m, id)
		delete(x.Frozen.m, id)
	}
	set(v, x.ByID.m, id, kv, exists)
	now, ok := x.ByID.m[id]
	if !ok {
		x.Order = DropID(x.Order, id)
		return
	}
	x.count(now.Rec, 1)
	x.Order = AddID(x.Order, id)
	mark(x.Of.m, now.Rec.Federation, id, true)
	if now.Rec.Frozen != nil {
		x.Frozen.m[id] = true
	}
	switch {
	case now.Rec.State == record.JobQueued:
		x.enqueue(now.Rec, true)
	case now.Rec.State.Ended() || now.Rec.Place == nil:
	case now.Rec.Place.URL != "":
		x.Posted.m[id] = true
	default:
		mark(x.On.m, standsAt(now.Rec), id, true)
		x.hold(now.Rec, standsAt(now.Rec), 1)
	}
}

func (x *jobIndex) count(j *record.Job, by int) {
	add := func(m map[string]int, key string) {
		if m[key] += by; m[key] == 0 {
			delete(m, key)
		}
	}
	x.States.m[j.State] += by
	if !j.State.Ended() {
		add(x.InFlight.m, j.Federation)
		add(x.Users.m, AccountOf(j))
	}
}

// AccountOf is the account that a job counts for: its sender, or the owner of the service whose
// token was used.
func AccountOf(j *record.Job) string {
	if j.By != "" {
		return j.By
	}
	return j.Owner
}

// AddID adds an id to a sorted list. Ids are in the order of time, so most are added at the end
// and removed at the beginning.
func AddID(ids []string, id string) []string {
	i, there := slices.BinarySearch(ids, id)
	if there {
		return ids
	}
	return slices.Insert(ids, i, id)
}

// DropID takes an id out of a sorted list.
func DropID(ids []string, id string) []string {
	i, there := slices.BinarySearch(ids, id)
	switch {
	case !there:
		return ids
	case i == 0:
		return ids[1:]
	}
	return slices.Delete(ids, i, i+1)
}

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

// Holding identifies the jobs of an account or, without one, of a federation at a cluster.
type Holding struct{ Cluster, Account, Federation string }

// standsAt is the cluster that has the attempt of a job; empty for none.
func standsAt(j *record.Job) string {
	if j.State == record.JobQueued || j.State.Ended() || j.Place == nil || j.Place.URL != "" {
		return ""
	}
	return j.Place.ClusterID
}

// enqueue adds a job to the queue of its account, or removes it.
func (x *jobIndex) enqueue(j *record.Job, there bool) {
	account := AccountOf(j)
	accounts := x.Queued.m[j.Federation]
	if there {
		if accounts == nil {
			accounts = map[string][]string{}
			x.Queued.m[j.Federation] = accounts
		}
		accounts[account] = AddID(accounts[account], j.Job)
		return
	}
	if left := DropID(accounts[account], j.Job); len(left) > 0 {
		accounts[account] = left
		return
	}
	delete(accounts, account)
	if len(accounts) == 0 {
		delete(x.Queued.m, j.Federation)
	}
}

// hold adds by to the number of jobs at a cluster.
func (x *jobIndex) hold(j *record.Job, cluster string, by int) {
	for _, h := range []Holding{{Cluster: cluster, Account: AccountOf(j)}, {Cluster: cluster, Federation: j.Federation}} {
		if x.Holds.m[h] += by; x.Holds.m[h] == 0 {
			delete(x.Holds.m, h)
		}
	}
}

// foundAt names an attempt that was found on a cluster.
type foundAt struct {
	Cluster string
	Attempt int
}

// noteFound keeps the index of what was found after a restore.
func (x *jobIndex) noteFound(job string, at foundAt, found bool) {
	switch {
	case found && x.Found.m[job] == nil:
		x.Found.m[job] = map[foundAt]bool{at: true}
	case found:
		x.Found.m[job][at] = true
	default:
		if delete(x.Found.m[job], at); len(x.Found.m[job]) == 0 {
			delete(x.Found.m, job)
		}
	}
}

// applyOffer takes over an offer or an answer; false when it is none.
func (v *View) applyOffer(ref record.Ref, kv store.KV, exists bool) bool {
	switch ref.Kind {
	case record.KindOffer:
		set(v, v.node(ref.Cluster).Offers.m, ref.Name, kv, exists)
		mark(v.Jobs.Offered.m, ref.Name, ref.Cluster, exists)
	case record.KindOfferAnswer:
		set(v, v.node(ref.Cluster).Answers.m, ref.Name, kv, exists)
	default:
		return false
	}
	v.news.Jobs[ref.Name], v.news.Capacity = true, true
	return true
}

// TimeOf is the time of a record; nil for none.
func TimeOf(t *record.Time) *time.Time {
	if t == nil {
		return nil
	}
	return &t.Time
}
