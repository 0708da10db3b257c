package invariants_test

import (
	"testing"

	"github.com/oscarfed/oscarfed/store/record"
	"github.com/oscarfed/oscarfed/test/invariants"
)

// job tells of one job of a federation, with the keys that it has.
type job struct {
	s    *script
	f    *federation
	id   string
	room record.Room
}

func (j *job) step(name string, build func(x *txn)) { j.s.step("job "+name, build) }

func (j *job) key() string { return record.JobKey(j.id) }

func (j *job) report(cluster string, n int) string { return record.JobReportKey(cluster, j.id, n) }

func (j *job) accept() {
	j.step("accept", func(x *txn) {
		x.put(j.key(), record.Job{V: 1, Job: j.id, Federation: j.f.uid, Owner: owner, Cluster: "a", State: record.JobQueued, AcceptedAt: clock})
		x.put(record.EventKey(j.id), record.Event{V: 1, Sealed: "sealed"})
	})
}

func (j *job) assign(cluster string, n int) {
	j.step("assign", func(x *txn) {
		edit(x, j.key(), func(r *record.Job) {
			r.State, r.Attempt, r.Reserved = record.JobAssigned, n, &j.room
			r.Place = &record.Place{ClusterID: cluster, ServiceName: j.f.at(cluster).service, UID: j.f.at(cluster).uid}
		})
		x.put(record.AssignmentKey(cluster, j.id, n), record.Assignment{V: 1, Job: j.id, Attempt: n})
		x.put(record.AssignedEventKey(cluster, j.id, n), record.Event{V: 1, Sealed: "sealed"})
		x.put(record.DecisionKey(j.id, n), record.Decision{V: 1, At: clock})
		x.put(record.ReservedKey(cluster), record.Reserved{V: 1, Jobs: []record.Promise{{Room: j.room, Count: 1}}})
	})
}

func (j *job) says(cluster string, n int, state record.JobState) {
	j.step(string(state), func(x *txn) {
		session := j.s.keys[record.SessionKey(cluster)].revision
		x.put(j.report(cluster, n), record.JobReport{V: 1, State: state, Session: session})
	})
}

// takes writes the record, and takes the attempt away.
func (j *job) takes(name, cluster string, n int, fn func(r *record.Job)) {
	j.step(name, func(x *txn) {
		edit(x, j.key(), func(r *record.Job) {
			r.Reserved = nil
			fn(r)
		})
		x.remove(record.AssignmentKey(cluster, j.id, n))
		x.remove(record.AssignedEventKey(cluster, j.id, n))
		x.remove(j.report(cluster, n))
		if x.s.keys[record.ReservedKey(cluster)].value != nil {
			x.remove(record.ReservedKey(cluster))
		}
		if name == "end" {
			x.remove(record.EventKey(j.id))
		}
	})
}

// jobStory: a job is refused by one cluster, runs on another, and is forgotten.
func jobStory(s *script, f *federation) *job {
	f.createdStory()
	j := &job{s: s, f: f, id: "j1", room: record.Room{Millicores: 500}}
	j.accept()
	j.assign("b", 1)
	j.says("b", 1, record.JobClaimed)
	j.says("b", 1, record.JobSubmitting)
	j.says("b", 1, record.JobRefused)
	j.takes("requeue", "b", 1, func(r *record.Job) { r.State = record.JobQueued })
	j.assign("c", 2)
	j.says("c", 2, record.JobClaimed)
	j.says("c", 2, record.JobSubmitting)
	j.says("c", 2, record.JobSubmitted)
	j.says("c", 2, record.JobRunning)
	j.step("noted", func(x *txn) {
		edit(x, j.key(), func(r *record.Job) { r.State, r.Reserved = record.JobRunning, nil })
		x.remove(record.ReservedKey("c"))
	})
	j.says("c", 2, record.JobSucceeded)
	j.takes("end", "c", 2, func(r *record.Job) { r.State = record.JobSucceeded })
	j.step("forget", func(x *txn) {
		x.remove(j.key())
		x.remove(record.DecisionKey(j.id, 1))
		x.remove(record.DecisionKey(j.id, 2))
	})
	return j
}

func TestAJobBreaksNothing(t *testing.T) {
	t.Parallel()
	s := newScript(t)
	jobStory(s, s.federation("f1", "one"))
	if report := check(t, s); report.Err() != nil {
		t.Errorf("%v", report.Violations)
	}
}

// TestAJobThatGoesBackBreaksNothing: its pod cannot start, then its inputs are not there, then
// it fails and is replayed.
func TestAJobThatGoesBackBreaksNothing(t *testing.T) {
	t.Parallel()
	s := newScript(t)
	f := s.federation("f1", "one")
	f.createdStory()
	j := &job{s: s, f: f, id: "j1", room: record.Room{Millicores: 500}}
	says := func(n int, state record.JobState, reason record.JobReason) {
		j.step(string(state), func(x *txn) {
			x.put(j.report("b", n), record.JobReport{V: 1, State: state, Reason: reason, Session: s.keys[record.SessionKey("b")].revision})
		})
	}
	attempt := func(n int) {
		j.assign("b", n)
		for _, state := range []record.JobState{record.JobClaimed, record.JobSubmitting, record.JobSubmitted} {
			says(n, state, "")
		}
	}
	runs := func(n int) {
		attempt(n)
		says(n, record.JobRunning, "")
		j.step("noted", func(x *txn) {
			edit(x, j.key(), func(r *record.Job) { r.State, r.Reserved = record.JobRunning, nil })
			x.remove(record.ReservedKey("b"))
		})
	}
	j.accept()
	attempt(1)
	says(1, record.JobSubmitted, record.JobCannotStart)
	says(1, record.JobRefused, record.JobCannotStart)
	j.takes("requeue", "b", 1, func(r *record.Job) { r.State = record.JobQueued })
	runs(2)
	says(2, record.JobFailed, record.JobInputsUnreadable)
	j.takes("requeue", "b", 2, func(r *record.Job) {
		r.State, r.Past = record.JobQueued, []record.Attempt{{Attempt: 2, State: record.JobFailed, Reason: record.JobInputsUnreadable}}
	})
	runs(3)
	says(3, record.JobFailed, record.JobPodFailed)
	j.takes("failed", "b", 3, func(r *record.Job) { r.State, r.Kept = record.JobFailed, true })
	j.step("replay", func(x *txn) {
		edit(x, j.key(), func(r *record.Job) { r.State, r.Kept = record.JobQueued, false })
	})
	runs(4)
	says(4, record.JobSucceeded, "")
	j.takes("end", "b", 4, func(r *record.Job) { r.State = record.JobSucceeded })
	if report := check(t, s); report.Err() != nil {
		t.Errorf("%v", report.Violations)
	}
}

func TestJobs(t *testing.T) {
	t.Parallel()
	spoilt := func(step string, fn func(x *txn)) func(*script, *federation) {
		return func(s *script, f *federation) {
			s.on("job "+step, fn)
			jobStory(s, f)
		}
	}
	state := func(state record.JobState) func(x *txn) {
		return func(x *txn) { edit(x, record.JobKey("j1"), func(r *record.Job) { r.State = state }) }
	}
	// while tells a job until it runs, and then something else.
	while := func(fn func(x *txn)) func(*script, *federation) {
		return func(s *script, f *federation) {
			s.on("job noted", fn)
			jobStory(s, f)
		}
	}
	run(t, invariants.RuleJobs, []planted{
		{"it begins assigned", spoilt("accept", state(record.JobAssigned)), "no cluster had found it", nil},
		{"an unknown way", spoilt("requeue", state(record.JobReturned)), `from "returned" to "assigned"`, nil},
		{"it runs again after its end", spoilt("end", func(x *txn) {
			edit(x, record.JobKey("j1"), func(r *record.Job) { r.State = record.JobQueued })
		}), `from "running" to "queued"`, nil},
		{"it is forgotten before its end", spoilt("end", func(x *txn) { x.remove(record.JobKey("j1")) }), "the record is gone, and the job was running", nil},
		{"it becomes another", spoilt("requeue", func(x *txn) {
			edit(x, record.JobKey("j1"), func(r *record.Job) { r.By = "somebody" })
		}), "it has become another job", nil},
		{"an attempt is left out", spoilt("assign", func(x *txn) {
			edit(x, record.JobKey("j1"), func(r *record.Job) { r.Attempt++ })
		}), "attempt 2 follows attempt 0", nil},
		{"a second attempt", while(func(x *txn) {
			x.put(record.AssignmentKey("a", "j1", 3), record.Assignment{V: 1, Job: "j1", Attempt: 3})
		}), "several attempts stand", nil},
		{"an attempt of a queued job", spoilt("requeue", func(x *txn) { x.leave(record.AssignmentKey("b", "j1", 1)) }), "it stands, and the job is queued", []invariants.Rule{invariants.RuleWriters}},
		{"no attempt", spoilt("assign", func(x *txn) { x.leave(record.AssignmentKey(clusterOf(x), "j1", attemptOf(x))) }), "no assignment stands", []invariants.Rule{invariants.RuleWriters}},
		{"not where its service is", spoilt("assign", func(x *txn) {
			edit(x, record.JobKey("j1"), func(r *record.Job) { r.Place.UID = "another life" })
		}), "which is not there to take it", nil},
		{"without a reason", spoilt("assign", func(x *txn) { x.leave(record.DecisionKey("j1", attemptOf(x))) }), "is not recorded", nil},
		{"taken back although it may run", spoilt("refused", func(x *txn) {
			edit(x, record.JobReportKey("b", "j1", 1), func(r *record.JobReport) { r.State = record.JobUncertain })
		}), "it was taken back and had been uncertain", nil},
		{"taken back under a living session", spoilt("submitting", func(x *txn) {
			for key := range x.puts {
				edit(x, key, func(r *record.JobReport) { r.State = record.JobClaimed })
			}
			x.s.hooks["job refused"] = x.s.hooks["job submitting"]
			x.s.hit["job refused"] = true
		}), "it was taken back while the session lives", nil},
		{"a report that nobody asked for", while(func(x *txn) {
			x.put(record.JobReportKey("a", "j1", 7), record.JobReport{V: 1, State: record.JobClaimed})
		}), "no assignment asks for it", []invariants.Rule{invariants.RuleWriters}},
		{"a report goes back", spoilt("running", func(x *txn) {
			edit(x, record.JobReportKey("c", "j1", 2), func(r *record.JobReport) { r.State = record.JobClaimed })
		}), `from "submitted" to "claimed"`, nil},
		{"begun although it was posted, and its report forgotten", spoilt("assign", func(x *txn) {
			edit(x, record.AssignmentKey(clusterOf(x), "j1", attemptOf(x)), func(a *record.Assignment) { a.Posted = true })
		}), `from "" to "claimed"`, nil},
		{"refused although its pod may start", spoilt("running", func(x *txn) {
			edit(x, record.JobReportKey("c", "j1", 2), func(r *record.JobReport) { r.State, r.Reason = record.JobRefused, record.JobCannotStart })
		}), `from "submitted" to "refused"`, nil},
		{"a failed job goes back by itself", spoilt("end", func(x *txn) {
			edit(x, record.JobKey("j1"), func(r *record.Job) {
				r.State, r.Past = record.JobQueued, []record.Attempt{{Attempt: 2, State: record.JobFailed, Reason: record.JobPodFailed}}
			})
		}), `from "running" to "queued"`, nil},
		{"the event of a failed job is left", spoilt("end", func(x *txn) {
			x.leave(record.EventKey("j1"))
			edit(x, record.JobKey("j1"), func(r *record.Job) { r.State = record.JobFailed })
		}), "it is left, and the job is failed", nil},
		{"more is promised", spoilt("assign", func(x *txn) {
			edit(x, record.ReservedKey(clusterOf(x)), func(r *record.Reserved) { r.Jobs[0].Count = 2 })
		}), "is promised, and the jobs there have", nil},
		{"it is promised for ever", spoilt("noted", func(x *txn) { x.leave(record.ReservedKey("c")) }), "is promised, and the jobs there have", nil},
		{"an event is left", spoilt("end", func(x *txn) { x.leave(record.EventKey("j1")) }), "it is left, and the job is succeeded", nil},
		{"queued without its event", spoilt("requeue", func(x *txn) { x.remove(record.EventKey("j1")) }), "it is queued, and has no event", nil},
	})
}

// attemptOf and clusterOf are of the job that a step assigns.
func attemptOf(x *txn) (n int) {
	edit(x, record.JobKey("j1"), func(r *record.Job) { n = r.Attempt })
	return n
}

func clusterOf(x *txn) (id string) {
	edit(x, record.JobKey("j1"), func(r *record.Job) { id = r.Place.ClusterID })
	return id
}
