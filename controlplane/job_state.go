package controlplane

import (
	"slices"

	"github.com/oscarfed/oscarfed/store"
	"github.com/oscarfed/oscarfed/store/record"
)

// jobIndex is what this instance knows of jobs. It is part of the state, and
// consistent with the rest of it.
type jobIndex struct {
	all map[string]versioned[record.Job]
	// order lists all jobs by id, which is by acceptance.
	order []string
	// queued lists, for a federation and an account, the queued jobs in that order, and holds
	// counts those that stand at a cluster.
	queued map[string]map[string][]string
	holds  map[holding]int
	// of lists the jobs of a federation, on those that stand at a cluster, and posted
	// those that an endpoint is to be asked for.
	of, on map[string]map[string]bool
	posted map[string]bool
	// inFlight counts, for a federation, the jobs that have not ended, users for
	// whoever is counted for them, and states all jobs.
	inFlight, users map[string]int
	states          map[record.JobState]int
	reserved        map[string]versioned[record.Reserved]
	// offered lists, for a job, the clusters that offer it, and frozen the jobs that
	// stand frozen where they were offered.
	offered map[string]map[string]bool
	frozen  map[string]bool
	// found lists, for a job, what clusters have found of it after a restore.
	found map[string]map[foundAt]bool
}

// attemptID names one attempt of a job.
type attemptID struct {
	job     string
	attempt int
}

func newJobIndex() jobIndex {
	return jobIndex{
		all: map[string]versioned[record.Job]{}, queued: map[string]map[string][]string{}, holds: map[holding]int{},
		of: map[string]map[string]bool{}, on: map[string]map[string]bool{}, posted: map[string]bool{},
		inFlight: map[string]int{}, users: map[string]int{}, states: map[record.JobState]int{},
		reserved: map[string]versioned[record.Reserved]{}, found: map[string]map[foundAt]bool{},
		offered: map[string]map[string]bool{}, frozen: map[string]bool{},
	}
}

// applyJob takes over a key of a job; false when it is none.
func (v *View) applyJob(ref record.Ref, kv store.KV, exists bool) bool {
	x := &v.jobs
	if v.applyOffer(ref, kv, exists) {
		return true
	}
	switch ref.Kind {
	case record.KindJob:
		v.setJob(ref.Name, kv, exists)
		v.news.Jobs[ref.Name] = true
	case record.KindReserved:
		set(v, x.reserved, ref.Cluster, kv, exists)
		v.news.Capacity = true
	case record.KindCapacity:
		n := v.node(ref.Cluster)
		n.capacity = one(v, n.capacity, true, kv, exists)
		v.news.Capacity = true
	case record.KindAssignment:
		set(v, v.node(ref.Cluster).assignments, attemptID{ref.Name, ref.AttemptOf()}, kv, exists)
		v.news.Jobs[ref.Name] = true
	case record.KindJobReport:
		id := attemptID{ref.Name, ref.AttemptOf()}
		set(v, v.node(ref.Cluster).reports, id, kv, exists)
		r := v.node(ref.Cluster).reports[id].rec
		x.noteFound(ref.Name, foundAt{ref.Cluster, id.attempt}, r != nil && r.Found)
		v.news.Jobs[ref.Name] = true
	default:
		return false
	}
	return true
}

func (v *View) setJob(id string, kv store.KV, exists bool) {
	x := &v.jobs
	if old, ok := x.all[id]; ok {
		x.count(old.rec, -1)
		mark(x.of, old.rec.Federation, id, false)
		if old.rec.State == record.JobQueued {
			x.enqueue(old.rec, false)
		}
		if at := standsAt(old.rec); at != "" {
			mark(x.on, at, id, false)
			x.hold(old.rec, at, -1)
		}
		delete(x.posted, id)
		delete(x.frozen, id)
	}
	set(v, x.all, id, kv, exists)
	now, ok := x.all[id]
	if !ok {
		x.order = dropID(x.order, id)
		return
	}
	x.count(now.rec, 1)
	x.order = addID(x.order, id)
	mark(x.of, now.rec.Federation, id, true)
	if now.rec.Frozen != nil {
		x.frozen[id] = true
	}
	switch {
	case now.rec.State == record.JobQueued:
		x.enqueue(now.rec, true)
	case now.rec.State.Ended() || now.rec.Place == nil:
	case now.rec.Place.URL != "":
		x.posted[id] = true
	default:
		mark(x.on, standsAt(now.rec), id, true)
		x.hold(now.rec, standsAt(now.rec), 1)
	}
}

func (x *jobIndex) count(j *record.Job, by int) {
	add := func(m map[string]int, key string) {
		if m[key] += by; m[key] == 0 {
			delete(m, key)
		}
	}
	x.states[j.State] += by
	if !j.State.Ended() {
		add(x.inFlight, j.Federation)
		add(x.users, accountOf(j))
	}
}

// accountOf is who is counted for a job: who sent it, or the owner of the service
// whose token was used.
func accountOf(j *record.Job) string {
	if j.By != "" {
		return j.By
	}
	return j.Owner
}

// addID and dropID keep a list sorted. Ids are in the order of time, so that most
// come at its end and go at its beginning.
func addID(ids []string, id string) []string {
	i, there := slices.BinarySearch(ids, id)
	if there {
		return ids
	}
	return slices.Insert(ids, i, id)
}

func dropID(ids []string, id string) []string {
	i, there := slices.BinarySearch(ids, id)
	switch {
	case !there:
		return ids
	case i == 0:
		return ids[1:]
	}
	return slices.Delete(ids, i, i+1)
}

// session is the create revision of a cluster's session; 0 for none.
func (v *View) session(cluster string) int64 {
	if n := v.nodes[cluster]; n != nil && n.session.rec != nil {
		return n.session.rev // it is put once
	}
	return 0
}

// listed says whether a cluster has told of every attempt among its Jobs in the present
// epoch.
func (v *View) listed(cluster string) bool {
	n := v.nodes[cluster]
	return n != nil && n.self.rec != nil && n.self.rec.JobsEpoch == v.epoch() && v.compared(cluster)
}
