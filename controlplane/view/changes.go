package view

import (
	"github.com/oscarfed/oscarfed/store/record"
)

// Changes lists what one refresh of the state has changed.
type Changes struct {
	// Federations, by uid, and Clusters that a change concerns. The empty cluster stands
	// for the fence.
	Federations, Clusters map[string]bool
	// Jobs, by id, Capacity says that some cluster has more or less to give, and Freed lists the
	// clusters that may have more.
	Jobs     map[string]bool
	Capacity bool
	Freed    map[string]bool
	// Ended lists the sessions that have ended. Departed lists the clusters that are being
	// removed, or were. Forgiven lists those that are readmitted, or that are registered anew.
	Ended              []EndedSession
	Departed, Forgiven []string
	// Readings are the keys of reports that a refresh token was read.
	Readings []string
	// Meta is set when the meta record was written.
	Meta *record.Meta
	// Records are those that were replaced, with what they held before.
	Records Records
	// Corrupt are errors of records that cannot be read, and Strange the words of a newer
	// version, by the key of their record.
	Corrupt []error
	Strange map[string]string
	// shown lists clusters whose appearance to callers has changed, and formerly the names that
	// federations had before.
	shown    map[string]bool
	formerly []string
	// moves has the jobs whose state was touched, and moved their ids in that order.
	moves map[string]JobMove
	moved []string
}

// EndedSession is a session that has ended: of a cluster, with the revision that its record had.
type EndedSession struct {
	Cluster string
	Rev     int64
}

// Replaced is one record that was written or deleted: what it holds and what it held, as far as
// the view knew; nil for nothing.
type Replaced[T any] struct{ Old, New *T }

// Reported is Replaced for a record below a cluster; Service is empty for one about the cluster.
type Reported[T any] struct {
	Cluster, Service string
	Replaced[T]
}

// Records are the replaced records of a refresh, in the order of their keys.
type Records struct {
	Federations []Replaced[record.Federation]
	Clusters    []Reported[record.Cluster]
	Sessions    []Reported[record.Session]
	Selfs       []Reported[record.ObservedCluster]
	Observed    []Reported[record.Observed]
	Meta        Replaced[record.Meta]
}

// JobMove is a job that had a state and has another one; To is empty for a job that is gone.
type JobMove struct {
	Job      *record.Job
	From, To record.JobState
}

// JobMoves lists the jobs whose state is another one than before the refresh. A transaction that
// takes a report into its job touches the state twice, and may not move it.
func (c *Changes) JobMoves() (out []JobMove) {
	for _, id := range c.moved {
		if m := c.moves[id]; m.From != m.To {
			out = append(out, m)
		}
	}
	return out
}

// move notes that a job has another state.
func (c *Changes) move(j *record.Job, from, to record.JobState) {
	if from == "" || from == to {
		return
	}
	if before, ok := c.moves[j.Job]; ok {
		from = before.From
	} else {
		c.moved = append(c.moved, j.Job)
	}
	c.moves[j.Job] = JobMove{Job: j, From: from, To: to}
}

func newChanges() *Changes {
	return &Changes{Federations: map[string]bool{}, Clusters: map[string]bool{}, Jobs: map[string]bool{}, Freed: map[string]bool{}, Strange: map[string]string{}, shown: map[string]bool{}, moves: map[string]JobMove{}}
}
