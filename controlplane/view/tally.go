package view

import (
	"iter"
	"maps"

	"github.com/oscarfed/oscarfed/store/record"
)

// Tally counts jobs as they are shown. It is kept with each change, so reading one costs nothing
// for each job.
type Tally struct {
	states map[record.JobState]int
	at     map[string]map[record.JobState]int
	edges  map[Edge]int
}

// Edge leads from the replica that jobs came in at to the member that they were handed over to:
// cluster/service, or the URL of an endpoint.
type Edge struct{ From, To string }

func newTally() Tally {
	return Tally{map[record.JobState]int{}, map[string]map[record.JobState]int{}, map[Edge]int{}}
}

// States counts the jobs by state.
func (t Tally) States() iter.Seq2[record.JobState, int] { return maps.All(t.states) }

// Clusters are the clusters that have jobs, or had those that have ended, in no order.
func (t Tally) Clusters() iter.Seq[string] { return maps.Keys(t.at) }

// At counts the jobs of a cluster by state. A job that waits counts where it came in.
func (t Tally) At(cluster string) iter.Seq2[record.JobState, int] { return maps.All(t.at[cluster]) }

// Edges counts the jobs that were handed over.
func (t Tally) Edges() iter.Seq2[Edge, int] { return maps.All(t.edges) }

// addTo adds by to the number at a key. A key with none is not in the map.
func addTo[K comparable](m map[K]int, key K, by int) {
	if m[key] += by; m[key] == 0 {
		delete(m, key)
	}
}

// add counts a job that is shown with a state.
func (t Tally) add(j *record.Job, state record.JobState, by int) {
	addTo(t.states, state, by)
	cluster := j.Cluster
	if state != record.JobQueued && j.Place != nil {
		cluster = j.Place.ClusterID // empty for an endpoint
	}
	if t.at[cluster] == nil {
		t.at[cluster] = map[record.JobState]int{}
	}
	if addTo(t.at[cluster], state, by); len(t.at[cluster]) == 0 {
		delete(t.at, cluster)
	}
	if edge, ok := edgeOf(j); ok && state != record.JobQueued {
		addTo(t.edges, edge, by)
	}
}

// edgeOf is the edge that a job was handed over by; false for one that stayed where it came in.
func edgeOf(j *record.Job) (Edge, bool) {
	from := j.Cluster + "/" + j.Service
	if j.Place == nil || j.Place.Where() == from {
		return Edge{}, false
	}
	return Edge{from, j.Place.Where()}, true
}

// JobState is the state that a job is shown with: that of its record, or of its syncer's report.
func (v *View) JobState(j *record.Job) record.JobState {
	if j.State != record.JobAssigned && j.State != record.JobRunning || j.Place == nil {
		return j.State
	}
	if j.Place.URL != "" {
		if j.Posting != nil {
			return record.JobSubmitting
		}
		return j.State
	}
	n := v.Nodes.m[j.Place.ClusterID]
	if n == nil {
		return j.State
	}
	switch r := n.Reports.m[AttemptID{Job: j.Job, Attempt: j.Attempt}].Rec; {
	case r == nil || r.State == "":
		return j.State
	case r.State == record.JobRefused: // or parked, as soon as its record says so
		return record.JobQueued
	default:
		return r.State
	}
}

// tally counts a job, and gives the state that it counts as; empty for nil.
func (v *View) tally(j *record.Job) record.JobState { return v.countShown(j, 1) }

// untally takes a job out of the counts before it, or a report of it, changes.
func (v *View) untally(j *record.Job) record.JobState { return v.countShown(j, -1) }

func (v *View) countShown(j *record.Job, by int) record.JobState {
	if j == nil {
		return ""
	}
	state, x := v.JobState(j), &v.Jobs
	x.Tally.add(j, state, by)
	tallyOf(x.OwnerTally, j.Owner).add(j, state, by)
	tallyOf(x.FederationTally, j.Federation).add(j, state, by)
	for _, in := range []struct {
		of  Table[string, Tally]
		key string
	}{{x.OwnerTally, j.Owner}, {x.FederationTally, j.Federation}} {
		if len(in.of.m[in.key].states) == 0 {
			delete(in.of.m, in.key)
		}
	}
	return state
}

func tallyOf(all Table[string, Tally], key string) Tally {
	t, ok := all.m[key]
	if !ok {
		t = newTally()
		all.m[key] = t
	}
	return t
}
