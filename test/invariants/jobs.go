package invariants

import (
	"bytes"
	"fmt"
	"maps"
	"slices"

	"github.com/oscarfed/oscarfed/store/record"
)

// Promise 8: a job is started at most once per attempt, and ends in a named state. The
// store shows: at most one attempt of a job stands; one that OSCAR may have been asked
// for is never taken away but by the end of the job; states move only along the diagram
// of record.Job; what is promised of a cluster is the sum of what its jobs were promised;
// and of a job that has ended nothing is left but its record and what was decided.

// jobsIndex is what stands of jobs.
type jobsIndex struct {
	// attempts lists the assignments of a job, and keys whatever else stands beside its
	// record.
	attempts, keys map[string]map[string]bool
	// promised is the sum of what jobs were promised, by cluster.
	promised map[string]map[record.Room]int64
}

func newJobsIndex() jobsIndex {
	return jobsIndex{attempts: map[string]map[string]bool{}, keys: map[string]map[string]bool{}, promised: map[string]map[record.Room]int64{}}
}

// apply takes over one change of a key.
func (x *jobsIndex) apply(ch *change) {
	move := func(index map[string]map[string]bool) {
		if ch.now != nil {
			add(index, ch.ref.Name, ch.key)
		} else {
			drop(index, ch.ref.Name, ch.key)
		}
	}
	switch ch.ref.Kind {
	case record.KindJob:
		x.promise(as[record.Job](ch.old), -1)
		x.promise(as[record.Job](ch.now), 1)
	case record.KindAssignment:
		move(x.attempts)
		move(x.keys)
	case record.KindAssignedEvent, record.KindEvent, record.KindJobReport:
		move(x.keys)
	default:
	}
}

func (x *jobsIndex) promise(j *record.Job, by int64) {
	if j == nil || j.Reserved == nil || j.Place == nil {
		return
	}
	of := x.promised[j.Place.ClusterID]
	if of == nil {
		of = map[record.Room]int64{}
		x.promised[j.Place.ClusterID] = of
	}
	if of[*j.Reserved] += by; of[*j.Reserved] == 0 {
		delete(of, *j.Reserved)
	}
}

func jobsStep(c *checker) {
	touched, rooms := map[string]bool{}, map[string]bool{}
	for _, ch := range c.changes {
		switch ch.ref.Kind {
		case record.KindJob:
			old, now := as[record.Job](ch.old), as[record.Job](ch.now)
			if ch.old == nil || ch.now == nil || !bytes.Equal(ch.old.kv.Value, ch.now.kv.Value) { // else it was compared, and stays
				c.jobMoves(ch, old, now)
			}
			for _, j := range []*record.Job{old, now} {
				if j != nil && j.Place != nil && j.Reserved != nil {
					rooms[j.Place.ClusterID] = true
				}
			}
		case record.KindJobReport:
			c.reportMoves(ch, as[record.JobReport](ch.old), as[record.JobReport](ch.now))
		case record.KindAssignment:
			c.attemptGoes(ch)
		case record.KindReserved:
			rooms[ch.ref.Cluster] = true
			continue
		case record.KindAssignedEvent, record.KindEvent:
		default:
			continue
		}
		touched[ch.ref.Name] = true
	}
	for _, id := range slices.Sorted(maps.Keys(touched)) {
		c.jobStands(id)
	}
	for _, cluster := range slices.Sorted(maps.Keys(rooms)) {
		c.promisedIs(cluster)
	}
}

// ways are the states that a job's record may go to.
func ways() map[record.JobState][]record.JobState {
	ends := []record.JobState{record.JobSucceeded, record.JobFailed, record.JobCancelled, record.JobVanished}
	return map[record.JobState][]record.JobState{
		"":                   append([]record.JobState{record.JobQueued, record.JobAssigned, record.JobRunning}, ends...),
		record.JobQueued:     {record.JobQueued, record.JobAssigned, record.JobRunning, record.JobCancelled, record.JobFailed, record.JobSucceeded, record.JobVanished, record.JobParked, record.JobReturned},
		record.JobAssigned:   append([]record.JobState{record.JobAssigned, record.JobQueued, record.JobRunning, record.JobUncertain, record.JobParked, record.JobReturned}, ends...),
		record.JobRunning:    append([]record.JobState{record.JobRunning, record.JobAssigned}, ends...),
		record.JobUncertain:  {record.JobUncertain, record.JobSucceeded, record.JobVanished},
		record.JobParked:     {record.JobParked, record.JobQueued, record.JobCancelled},
		record.JobSucceeded:  nil,
		record.JobFailed:     {record.JobFailed, record.JobQueued},    // by the order of a person
		record.JobCancelled:  {record.JobAssigned, record.JobRunning}, // where it is found, to end there
		record.JobVanished:   nil,
		record.JobReturned:   {record.JobQueued},
		record.JobClaimed:    nil,
		record.JobSubmitting: nil,
	}
}

// follows says that a job has gone with the only replica of its federation to another one.
func (c *checker) follows(old, now *record.Job) bool {
	heir := c.federation(now.Federation)
	return !old.State.Ended() && c.federation(old.Federation) == nil && heir != nil && heir.Owner == old.Owner && slices.Contains(heir.Former, old.Federation)
}

// jobMoves judges what became of a job's record.
func (c *checker) jobMoves(ch *change, old, now *record.Job) {
	var was record.Job
	if old != nil {
		was = *old
	}
	switch {
	case now == nil:
		if old != nil && !old.State.Ended() {
			c.violatef(RuleJobs, ch.key, "the record is gone, and the job was %s", old.State)
		}
		return
	case now.Job != ch.ref.Name:
		c.violatef(RuleJobs, ch.key, "it names job %s", now.Job)
	case old != nil && (now.Federation != old.Federation && !c.follows(old, now) || now.Owner != old.Owner || now.By != old.By || now.AcceptedAt != old.AcceptedAt):
		c.violatef(RuleJobs, ch.key, "it has become another job")
	}
	found := c.found(now)
	if !slices.Contains(ways()[was.State], now.State) && !withoutInputs(&was, now) {
		c.violatef(RuleJobs, ch.key, "it went from %q to %q", was.State, now.State)
	}
	if (old == nil && now.State != record.JobQueued || now.State != was.State && (was.State == record.JobCancelled || was.State == record.JobRunning && now.State == record.JobAssigned)) && !found {
		c.violatef(RuleJobs, ch.key, "it went from %q to %q, and no cluster had found it", was.State, now.State)
	}
	assigned := was.State == record.JobQueued && (now.State == record.JobAssigned || now.State == record.JobRunning)
	restored := assigned && was.Frozen != nil && now.Frozen == nil && now.Place != nil && now.Place.ClusterID == was.Frozen.ClusterID
	switch {
	case found && now.Attempt >= was.Attempt:
	case assigned && now.Attempt != was.Attempt+1:
		c.violatef(RuleJobs, ch.key, "attempt %d follows attempt %d", now.Attempt, was.Attempt)
	case !assigned && old != nil && now.Attempt != was.Attempt:
		c.violatef(RuleJobs, ch.key, "attempt %d became %d, and it was not assigned", was.Attempt, now.Attempt)
	}
	if now.Reserved != nil && now.State != record.JobAssigned {
		c.violatef(RuleJobs, ch.key, "it is %s, and capacity is promised to it", now.State)
	}
	if assigned && !restored && !found && now.Place != nil && now.Place.URL == "" {
		c.assignedWell(ch, now)
	}
}

// withoutInputs says whether a job goes back because its syncer is certain that it has failed
// before anything of it ran.
func withoutInputs(was, now *record.Job) bool {
	n := len(now.Past)
	return was.State == record.JobRunning && (now.State == record.JobQueued || now.State == record.JobParked) &&
		n > 0 && now.Past[n-1].Attempt == was.Attempt && now.Past[n-1].Reason == record.JobInputsUnreadable
}

// found says whether a cluster has told of a job's attempt that the store, restored, did
// not know.
func (c *checker) found(j *record.Job) bool {
	if j.Place == nil {
		return false
	}
	key := record.JobReportKey(j.Place.ClusterID, j.Job, j.Attempt)
	r := as[record.JobReport](c.before(key))
	return r != nil && r.Found
}

// assignedWell: a job goes where its service is to be, to a syncer that has a session.
func (c *checker) assignedWell(ch *change, j *record.Job) {
	p := place{j.Place.ClusterID, j.Place.ServiceName}
	if d := as[record.Desired](c.before(p.desiredKey())); d == nil || d.UID != j.Place.UID || d.Intent != record.IntentApply {
		c.violatef(RuleJobs, ch.key, "it was assigned to %s, which is not there to take it", p)
	}
	if c.before(record.SessionKey(p.cluster)) == nil {
		c.violatef(RuleJobs, ch.key, "it was assigned to %s while its cluster had no session", p)
	}
	if c.now(record.DecisionKey(j.Job, j.Attempt)) == nil {
		c.violatef(RuleJobs, ch.key, "why it was assigned to %s is not recorded", p)
	}
}

// steps are the states that a report may go to.
func steps() map[record.JobState][]record.JobState {
	ends := []record.JobState{record.JobSucceeded, record.JobFailed, record.JobCancelled, record.JobVanished}
	running := append([]record.JobState{record.JobRunning}, ends...)
	submitted := append([]record.JobState{record.JobSubmitted}, running...)
	return map[record.JobState][]record.JobState{
		"":                   {record.JobClaimed, record.JobRefused, record.JobCancelled},
		record.JobClaimed:    {record.JobClaimed, record.JobSubmitting, record.JobRefused, record.JobCancelled},
		record.JobSubmitting: append([]record.JobState{record.JobSubmitting, record.JobRefused, record.JobUncertain}, submitted...),
		record.JobUncertain:  append([]record.JobState{record.JobUncertain}, submitted...),
		record.JobSubmitted:  submitted,
		record.JobRunning:    running,
	}
}

// reportMoves judges what a syncer says of an attempt. One that was found after a
// restore begins anywhere, and what stands as in the backup goes on anywhere: its syncer
// may have come farther before the restore.
func (c *checker) reportMoves(ch *change, old, now *record.JobReport) {
	if now == nil || now.Found {
		return
	}
	var was record.JobState
	if old != nil {
		was = old.State
	}
	assignment := c.before(record.AssignmentKey(ch.ref.Cluster, ch.ref.Name, ch.ref.AttemptOf()))
	backup := assignment != nil && assignment.kv.ModRevision <= c.stood && (ch.old == nil || ch.old.kv.ModRevision <= c.stood)
	// What was posted, and its report forgotten, is looked for, and not begun again.
	next := steps()[was]
	if a := as[record.Assignment](assignment); a != nil && a.Posted && was == "" {
		next = []record.JobState{record.JobUncertain, record.JobCancelled}
	}
	// A Job whose pod cannot start, for certain, is deleted, and refused then.
	given := was == record.JobSubmitted && now.State == record.JobRefused && old.Reason == record.JobCannotStart && now.Reason == record.JobCannotStart
	if was != now.State && !given && (old == nil || !old.Found) && !backup && !slices.Contains(next, now.State) {
		c.violatef(RuleJobs, ch.key, "its report went from %q to %q", was, now.State)
	}
	if assignment == nil {
		c.violatef(RuleJobs, ch.key, "it was reported on, and no assignment asks for it")
	}
}

// attemptGoes: an assignment that OSCAR may have been asked for goes only with the end
// of its job, when a later attempt was found, or when it stands frozen.
func (c *checker) attemptGoes(ch *change) {
	a := as[record.Assignment](ch.old)
	if ch.now != nil || a == nil || c.cleared(ch.ref.Cluster) {
		return
	}
	j := as[record.Job](c.now(record.JobKey(ch.ref.Name)))
	if j == nil || c.changed[record.JobKey(ch.ref.Name)] == nil {
		c.violatef(RuleJobs, ch.key, "the assignment is gone, and the record of its job was not written")
		return
	}
	r := as[record.JobReport](c.before(record.JobReportKey(ch.ref.Cluster, ch.ref.Name, a.Attempt)))
	switch {
	case r == nil || !r.State.Posted():
		if r != nil && r.State == record.JobClaimed && j.State == record.JobQueued {
			s := c.now(record.SessionKey(ch.ref.Cluster))
			if s != nil && s.kv.CreateRevision == r.Session {
				c.violatef(RuleJobs, ch.key, "it was taken back while the session lives that has claimed it")
			}
		}
	case j.State.Ended() && j.State != record.JobParked && j.State != record.JobReturned:
	case r.State == record.JobFailed && r.Reason == record.JobInputsUnreadable:
	case j.Attempt > a.Attempt && c.found(j):
	case j.Frozen != nil && j.Frozen.ClusterID == ch.ref.Cluster:
	default:
		c.violatef(RuleJobs, ch.key, "it was taken back and had been %s, and its job is %s", r.State, j.State)
	}
}

// jobStands judges what stands of one job.
func (c *checker) jobStands(id string) {
	key := record.JobKey(id)
	j := as[record.Job](c.now(key))
	attempts := slices.Sorted(maps.Keys(c.jobs.attempts[id]))
	if len(attempts) > 1 {
		c.violatef(RuleJobs, key, "several attempts stand: %v", attempts)
	}
	want := ""
	switch {
	case j == nil:
	case j.State.Ended() || j.State == record.JobQueued:
	case j.Place == nil:
		c.violatef(RuleJobs, key, "it is %s, and nowhere", j.State)
	case j.Place.URL == "":
		want = record.AssignmentKey(j.Place.ClusterID, id, j.Attempt)
	}
	for _, have := range attempts {
		if have != want {
			c.violatef(RuleJobs, have, "it stands, and the job is %s", told(j))
		}
	}
	if want != "" && len(attempts) == 0 && c.now(record.ClusterKey(j.Place.ClusterID)) != nil && !c.cleared(j.Place.ClusterID) {
		c.violatef(RuleJobs, key, "it is %s, and no assignment stands", j.State)
	}
	if j != nil && j.State == record.JobQueued && c.now(record.EventKey(id)) == nil {
		c.violatef(RuleJobs, key, "it is queued, and has no event")
	}
	if j != nil && !j.State.Ended() {
		return
	}
	for _, left := range slices.Sorted(maps.Keys(c.jobs.keys[id])) {
		e := c.now(left)
		if j != nil && (j.State == record.JobParked || j.State == record.JobFailed && j.Kept) && left == record.EventKey(id) {
			continue
		}
		if r := as[record.JobReport](e); r != nil && r.Found {
			continue // it was found after a restore, and is not dealt with yet
		}
		c.violatef(RuleJobs, left, "it is left, and the job is %s", told(j))
	}
}

func told(j *record.Job) string {
	if j == nil {
		return "not known"
	}
	return fmt.Sprintf("%s with attempt %d", j.State, j.Attempt)
}

// promisedIs: what is promised of a cluster is the sum over its jobs.
func (c *checker) promisedIs(cluster string) {
	key := record.ReservedKey(cluster)
	have := map[record.Room]int64{}
	if r := as[record.Reserved](c.now(key)); r != nil {
		for _, p := range r.Jobs {
			have[p.Room] += p.Count
		}
	}
	if !maps.Equal(have, c.jobs.promised[cluster]) {
		c.violatef(RuleJobs, key, "%v is promised, and the jobs there have %v", have, c.jobs.promised[cluster])
	}
}
