package offers

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/oscarfed/oscarfed/api/oscar"
	"github.com/oscarfed/oscarfed/store/record"
	"github.com/oscarfed/oscarfed/syncer/kube"
)

var offerTime = time.Date(2026, 11, 20, 13, 0, 0, 0, time.UTC)

// waitingJob is a Job whose pod has had no node for a minute.
func waitingJob(change ...func(*kube.Job)) *kube.Job {
	j := &kube.Job{
		UID: "job-uid", Generation: 1, Service: "s", Created: offerTime.Add(-time.Minute),
		Pods: []kube.JobPod{{Name: "p", Created: offerTime.Add(-time.Minute)}},
	}
	for _, c := range change {
		c(j)
	}
	return j
}

func heldJob() *kube.Job {
	return waitingJob(func(j *kube.Job) { j.Mark = &kube.JobMark{Job: "j", State: kube.MarkHolding} })
}

func queuedJob(change ...func(*kube.Job)) *kube.Job {
	return waitingJob(append([]func(*kube.Job){func(j *kube.Job) {
		j.Queue, j.Suspended, j.Settled, j.Pods, j.Workload = "q", true, true, nil, &kube.Workload{Name: "w", Active: true}
	}}, change...)...)
}

// TestWhichJobsAreOffered: each reason not to, one at a time.
func TestWhichJobsAreOffered(t *testing.T) {
	t.Parallel()
	restored := func(times int, at time.Time, generation int64) func(*kube.Job) {
		return func(j *kube.Job) {
			j.Mark, j.Generation = &kube.JobMark{State: kube.MarkRestored, Times: times, At: &at, Generation: generation}, generation
		}
	}
	for name, c := range map[string]struct {
		job    *kube.Job
		change func(*situation)
		want   step
		after  time.Duration
		// held says that it is asked for again.
		held bool
	}{
		"a pod without a node": {job: waitingJob(), want: stepTell},
		"one that Kueue holds": {job: queuedJob(), want: stepTell},
		"one that Kueue has admitted": {job: waitingJob(func(j *kube.Job) {
			j.Queue, j.Generation, j.Workload = "q", 2, &kube.Workload{Active: true, Admitted: true}
		}), want: stepTell},
		"a glance is not enough":              {job: waitingJob(), change: func(s *situation) { s.fresh = false }, want: stepRead},
		"the cluster is paused":               {job: waitingJob(), change: func(s *situation) { s.Stopped = true }, want: stepRest},
		"etcd went back":                      {job: waitingJob(), change: func(s *situation) { s.Restored = true }, want: stepRest},
		"there is no room":                    {job: waitingJob(), change: func(s *situation) { s.another = false }, want: stepRest},
		"its service is not ours":             {job: waitingJob(), change: func(s *situation) { s.barred = "foreign" }, want: stepRest},
		"it was refused":                      {job: waitingJob(), change: func(s *situation) { s.refused = "policy" }, want: stepRest},
		"not for long yet":                    {job: waitingJob(), change: func(s *situation) { s.threshold = 90 * time.Second }, want: stepLook, after: 30 * time.Second},
		"its pod has a node":                  {job: waitingJob(func(j *kube.Job) { j.Pods[0].Node = "n" }), want: stepRest},
		"its pod goes":                        {job: waitingJob(func(j *kube.Job) { j.Pods[0].Deleting = true }), want: stepRest},
		"it has no pod yet":                   {job: waitingJob(func(j *kube.Job) { j.Pods = nil }), want: stepRest},
		"it has ended":                        {job: waitingJob(func(j *kube.Job) { j.Ended = true }), want: stepRest},
		"it is being deleted":                 {job: waitingJob(func(j *kube.Job) { j.Deleting = true }), want: stepRest},
		"it was resumed by hand":              {job: waitingJob(func(j *kube.Job) { j.Generation = 3 }), want: stepRest},
		"it is suspended by hand":             {job: waitingJob(func(j *kube.Job) { j.Suspended, j.Generation, j.Pods = true, 2, nil }), want: stepRest},
		"it was made suspended":               {job: waitingJob(func(j *kube.Job) { j.Suspended, j.Pods = true, nil }), want: stepRest},
		"Kueue has stopped it":                {job: queuedJob(func(j *kube.Job) { j.Generation = 3 }), want: stepRest},
		"its Workload was deactivated":        {job: queuedJob(func(j *kube.Job) { j.Workload.Active = false }), want: stepRest},
		"it has no Workload":                  {job: queuedJob(func(j *kube.Job) { j.Workload = nil }), want: stepRest},
		"Kueue is about to resume it":         {job: queuedJob(func(j *kube.Job) { j.Workload.Admitted = true }), want: stepRest},
		"OSCAR's rescheduler may take it":     {job: waitingJob(func(j *kube.Job) { j.Rescheduler = true }), want: stepRest},
		"it is none of OSCAR's":               {job: waitingJob(func(j *kube.Job) { j.Unusual = "retries" }), want: stepRest},
		"its event is too long":               {job: waitingJob(func(j *kube.Job) { j.Event = string(make([]byte, oscar.MaxEventBytes+1)) }), want: stepRest},
		"its event is as long as it may be":   {job: waitingJob(func(j *kube.Job) { j.Event = string(make([]byte, oscar.MaxEventBytes)) }), want: stepTell},
		"its event is not UTF-8":              {job: waitingJob(func(j *kube.Job) { j.Event = "\xff" }), want: stepRest},
		"given back a minute ago":             {job: waitingJob(restored(1, offerTime.Add(-time.Minute), 3)), want: stepLook, after: 4 * time.Minute},
		"given back thrice":                   {job: waitingJob(restored(3, offerTime, 3)), want: stepLook, after: 20 * time.Minute},
		"given back often":                    {job: waitingJob(restored(99, offerTime, 3)), want: stepLook, after: time.Hour},
		"by a clock that is ahead":            {job: waitingJob(restored(1, offerTime.Add(24*time.Hour), 3)), want: stepLook, after: 5 * time.Minute},
		"given back an hour ago":              {job: waitingJob(restored(9, offerTime.Add(-time.Hour), 3)), want: stepTell},
		"given back, and changed since":       {job: waitingJob(restored(1, offerTime.Add(-time.Hour), 3), func(j *kube.Job) { j.Generation = 5 }), want: stepRest},
		"an answer without an offer":          {job: waitingJob(), change: func(s *situation) { s.answered, s.answer = true, record.OfferFreeze }, want: stepRest},
		"held for an offer that is not known": {job: heldJob(), want: stepTell, held: true},
		"the offer is older than the hold": {job: heldJob(), change: func(s *situation) {
			s.offer = &record.Offer{State: record.OfferWaiting, Message: "it waits"}
		}, want: stepTell, held: true},
		"held, and asked about": {job: heldJob(), change: func(s *situation) {
			s.offer = &record.Offer{State: record.OfferWaiting, Held: true}
		}, want: stepRest},
		"held, and asked about in the epoch before": {job: heldJob(), change: func(s *situation) {
			s.Epoch, s.offer = "2", &record.Offer{State: record.OfferWaiting, Held: true}
		}, want: stepTell, held: true},
		"held, asked about, and to go on": {job: heldJob(), change: func(s *situation) {
			s.offer, s.answered, s.answer = &record.Offer{State: record.OfferWaiting, Held: true}, true, record.OfferRestore
		}, want: stepUnmark},
		"held, asked about, and submitted elsewhere": {job: heldJob(), change: func(s *situation) {
			s.offer, s.answered, s.answer = &record.Offer{State: record.OfferWaiting, Held: true}, true, record.OfferRelease
		}, want: stepHold},
		"released, of another epoch": {job: waitingJob(), change: func(s *situation) {
			s.offer, s.answered = &record.Offer{State: record.OfferReleased}, true
		}, want: stepRest},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := situation{now: offerTime, job: c.job, fresh: true, another: true, threshold: 30 * time.Second}
			if c.change != nil {
				c.change(&s)
			}
			d := plan(s)
			if d.step != c.want || d.after.Round(time.Second) != c.after || d.step == stepTell && d.state != record.OfferWaiting || d.held != c.held {
				t.Errorf("%s %q after %s; want %s after %s", d.step, d.state, d.after, c.want, c.after)
			}
		})
	}
}

// jobModel is one Job in a cluster of which only this is known: a write to an old
// version of an object fails, a pod is bound once, and everybody works when he likes.
type jobModel struct {
	t       *rapid.T
	now     time.Time
	job     *kube.Job // nil when deleted
	offer   *record.Offer
	answer  record.OfferWord
	podUIDs int
	// versions of the Job and its pods: a step fails when the one it was decided on is
	// not current.
	version    int
	podVersion map[string]int
	// begun are pods that started something; killed those of them that were taken away.
	begun, killed map[string]bool
	// accepted says that another cluster runs it.
	accepted bool
	// pending is a step that was decided on, and is yet to be taken.
	pending *modelStep
	// flying is an admission that Kueue's scheduler has decided on, and not written yet.
	flying bool
	// preempted says that Kueue has stopped it for another one: it may have been running.
	preempted bool
	// off says that the syncer was restarted with --offer-jobs=off.
	off bool
}

type modelStep struct {
	d          decision
	version    int
	podVersion int
	job        *kube.Job
}

func (m *jobModel) changed() { m.version++ }

// copyJob is a Job as it is read.
func copyJob(j *kube.Job) *kube.Job {
	if j == nil {
		return nil
	}
	out := *j
	out.Pods = slices.Clone(j.Pods)
	if j.Mark != nil {
		mark := *j.Mark
		out.Mark = &mark
	}
	if j.Workload != nil {
		w := *j.Workload
		out.Workload = &w
	}
	return &out
}

// look decides on what is now, and takes steps in etcd at once.
func (m *jobModel) look() {
	if m.pending != nil {
		return
	}
	s := situation{now: m.now, offer: m.offer, answered: m.answer != "", answer: m.answer, job: copyJob(m.job), fresh: true, another: true, threshold: time.Second}
	if m.off {
		s.barred, s.refused = offersAreOff, offersAreOff
	}
	d := plan(s)
	switch {
	case d.step == stepTell:
		if d.state == record.OfferFrozen && len(m.begun) > 0 {
			m.t.Fatal("it is said to be frozen, and has started")
		}
		m.offer = &record.Offer{State: d.state, Held: d.held}
	case d.step == stepForget:
		m.offer = nil
	case d.step >= stepMark: // it changes something in Kubernetes
		m.pending = &modelStep{d: d, version: m.version, job: s.job}
		if d.step == stepHold {
			m.pending.podVersion = m.podVersion[d.pod.Name]
		}
	}
}

// act takes the pending step, as sendJobStep does.
func (m *jobModel) act() {
	p := m.pending
	if p == nil {
		return
	}
	m.pending = nil
	if m.job == nil {
		return
	}
	switch p.d.step {
	case stepHold:
		i := slices.IndexFunc(m.job.Pods, func(q kube.JobPod) bool { return q.Name == p.d.pod.Name })
		if i >= 0 && m.podVersion[p.d.pod.Name] == p.podVersion {
			m.job.Pods[i].Held = true
			m.podVersion[p.d.pod.Name]++
		}
		return
	case stepActivate, stepDeactivate:
		if w := m.job.Workload; w != nil && *w == *p.job.Workload {
			w.Active = p.d.step == stepActivate
		}
		return
	}
	if p.version != m.version {
		return
	}
	j := m.job
	mark := kube.JobMark{Job: "j", State: kube.MarkHolding}
	if j.Mark != nil {
		mark = *j.Mark
	}
	restored := func(generation int64) *kube.JobMark {
		if p.d.spoiled {
			generation = 0
		}
		return &kube.JobMark{State: kube.MarkRestored, Generation: generation, Times: mark.Times + 1, At: new(m.now)}
	}
	leave := func() { j.Mark.Queue, j.Queue = j.Queue, "" }
	switch p.d.step {
	case stepMark:
		j.Mark = &kube.JobMark{Job: "j", State: kube.MarkHolding, Times: mark.Times}
		if j.Suspended && j.Queue != "" {
			leave()
		}
	case stepSuspend:
		j.Suspended, mark.Suspended = true, true
		j.Generation++
		j.Mark = &mark
		if j.Queue != "" {
			leave()
		}
	case stepResume:
		j.Suspended, j.Settled = false, false
		j.Generation++
		j.Mark = restored(j.Generation)
	case stepRestoring:
		mark.State, mark.Generation = kube.MarkRestoring, j.Generation
		j.Mark = &mark
	case stepUnmark:
		generation := j.Generation
		if mark.State == kube.MarkRestoring {
			generation = mark.Generation
		}
		if left(j) && j.Suspended {
			j.Queue = mark.Queue
		}
		j.Mark = restored(generation)
	case stepDelete:
		for _, pod := range j.Pods {
			m.kill(pod)
		}
		m.job = nil
	}
	m.changed()
}

func (m *jobModel) kill(p kube.JobPod) {
	if m.begun[p.Name] {
		m.killed[p.Name] = true
	}
}

// controller is the Job controller.
func (m *jobModel) controller() {
	j := m.job
	if j == nil {
		return
	}
	if !j.Suspended {
		if len(j.Pods) == 0 {
			m.podUIDs++
			j.Pods = []kube.JobPod{{Name: fmt.Sprint("p", m.podUIDs), Created: m.now.Add(-time.Hour)}}
			m.changed()
		}
		return
	}
	var left []kube.JobPod
	for _, p := range j.Pods {
		if m.kill(p); p.Node != "" {
			p.Deleting = true
			left = append(left, p) // its node ends it
		}
	}
	j.Pods = left
	if !j.Settled {
		j.Settled = true
		m.changed()
	}
}

// bind is the scheduler, and node the kubelet.
func (m *jobModel) bind() {
	if m.job == nil {
		return
	}
	for i, p := range m.job.Pods {
		if p.Node == "" && !p.Deleting {
			m.job.Pods[i].Node = "n"
			m.podVersion[p.Name]++
		}
	}
}

func (m *jobModel) node() {
	if m.job == nil {
		return
	}
	m.job.Pods = slices.DeleteFunc(m.job.Pods, func(p kube.JobPod) bool { return p.Deleting })
	for _, p := range m.job.Pods {
		if p.Node == "" || p.Held || m.begun[p.Name] {
			continue
		}
		m.begun[p.Name] = true
		if m.accepted {
			m.t.Fatal("it starts here, and somebody else has it")
		}
	}
}

// kueue starts and stops a Job by its Workload, one thing at a time, and leaves alone
// what is in no queue. Its scheduler takes what waits out of the queue, and later writes
// that it is admitted, whatever has become of it meanwhile.
func (m *jobModel) kueue() {
	j := m.job
	if j == nil {
		return
	}
	w := j.Workload
	switch {
	case w == nil:
	case m.flying:
		m.flying, w.Admitted = false, true
	case j.Queue == "" && w.Active && !w.Admitted:
		m.flying = true
	case j.Queue == "":
	case !j.Suspended && (!w.Active || !w.Admitted):
		j.Suspended = true
		j.Generation++
		m.changed()
	case !w.Active && w.Admitted && j.Settled:
		w.Admitted = false
	case w.Active && !w.Admitted:
		m.flying = true
	case w.Admitted && j.Suspended:
		j.Suspended, j.Settled = false, false
		j.Generation++
		m.changed()
	}
}

// preempt is Kueue, which needs the place of a Job that it has started.
func (m *jobModel) preempt() {
	j := m.job
	if j == nil || j.Queue == "" || j.Suspended || j.Workload == nil || !j.Workload.Admitted {
		return
	}
	j.Suspended, j.Workload.Admitted, m.preempted = true, false, true
	j.Generation++
	m.changed()
}

// plane is the control plane: giveUp has it take the Job back instead of giving it to somebody.
func (m *jobModel) plane(giveUp bool) {
	switch {
	case m.offer == nil:
		m.answer = ""
	case offerOver(m.offer.State):
		m.offer, m.answer = nil, ""
	case m.answer == record.OfferRestore, m.answer == record.OfferRelease:
	case giveUp && m.answer != "":
		m.answer = record.OfferRestore
	case m.offer.State == record.OfferWaiting:
		m.answer = record.OfferFreeze
	case m.offer.State == record.OfferFrozen && m.answer == record.OfferFreeze:
		if len(m.begun) > 0 {
			m.t.Fatal("somebody else gets a Job that has started")
		}
		m.accepted, m.answer = true, record.OfferRelease
	}
}

// TestNoJobIsLostOrStartedTwice: whatever everybody does, in whatever order.
func TestNoJobIsLostOrStartedTwice(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		m := &jobModel{t: t, now: offerTime, podVersion: map[string]int{}, begun: map[string]bool{}, killed: map[string]bool{}}
		m.job = waitingJob(func(j *kube.Job) { j.Pods = nil })
		if rapid.Bool().Draw(t, "queued") {
			m.job = queuedJob()
		}
		m.job.Created = offerTime.Add(-time.Hour)
		everybody := []func(){m.look, m.look, m.act, m.act, m.controller, m.bind, m.node, m.kueue, func() { m.plane(false) }, func() { m.plane(true) },
			func() { m.pending = nil }, // the syncer dies
			func() { m.pending, m.off = nil, rapid.IntRange(0, 9).Draw(t, "off") == 0 },
		}
		if rapid.IntRange(0, 3).Draw(t, "preempts") == 0 {
			everybody = append(everybody, m.preempt)
		}
		for range rapid.IntRange(0, 120).Draw(t, "turns") {
			everybody[rapid.IntRange(0, len(everybody)-1).Draw(t, "who")]()
		}
		// Then nobody dies any more, and there is room. It is not offered again: the clock stands still.
		for range 40 {
			for _, who := range []func(){m.look, m.act, m.controller, m.bind, m.node, m.kueue, func() { m.plane(false) }} {
				who()
			}
		}
		copies := len(m.begun)
		if m.accepted {
			copies++
		}
		switch {
		case m.preempted && len(m.begun) > 0 && !m.accepted: // Kueue starts what it has stopped again
		case copies != 1 || len(m.killed) > 0:
			t.Errorf("%d copies were started, %d of them killed", copies, len(m.killed))
		}
		if m.accepted != (m.job == nil) {
			t.Errorf("accepted %t, and the Job is %+v", m.accepted, m.job)
		}
		if j := m.job; j != nil && (j.Mark.Holding() || j.Workload != nil && (j.Queue == "" || !j.Workload.Active)) {
			t.Errorf("it is not as it was found: %+v, mark %+v, Workload %+v", j, j.Mark, j.Workload)
		}
	})
}

// TestAJobIsNotResumedBeforeItsHeldPodIsGone: resumed at once, it would keep a pod that
// can start nothing, and wait for ever.
func TestAJobIsNotResumedBeforeItsHeldPodIsGone(t *testing.T) {
	t.Parallel()
	s := situation{now: offerTime, fresh: true, offer: &record.Offer{State: record.OfferFrozen}, answered: true, answer: record.OfferRestore,
		job: waitingJob(func(j *kube.Job) {
			j.Suspended, j.Pods[0].Held, j.Mark = true, true, &kube.JobMark{Job: "j", State: kube.MarkHolding, Suspended: true}
		})}
	if d := plan(s); d.step != stepLook {
		t.Errorf("%s", d.step)
	}
	s.job.Pods = nil
	if d := plan(s); d.step != stepResume {
		t.Errorf("without pods: %s", d.step)
	}
}

// TestAJobThatWasStoppedBeforeItsPodWasHeldIsGivenBack: the syncer died after its mark, the
// pod got a node and ran, and Kueue stopped it for another Job. It is not offered again.
func TestAJobThatWasStoppedBeforeItsPodWasHeldIsGivenBack(t *testing.T) {
	t.Parallel()
	s := situation{now: offerTime, fresh: true, offer: &record.Offer{State: record.OfferWaiting}, answered: true, answer: record.OfferFreeze,
		job: queuedJob(func(j *kube.Job) {
			j.Generation, j.Mark = 3, &kube.JobMark{Job: "j", State: kube.MarkHolding}
		})}
	if d := plan(s); d.step != stepUnmark || !d.spoiled {
		t.Errorf("%s, spoiled %t", d.step, d.spoiled)
	}
}

// TestTheWorkloadThatSomebodyElseDeactivatedIsLeft: it was not us.
func TestTheWorkloadThatSomebodyElseDeactivatedIsLeft(t *testing.T) {
	t.Parallel()
	s := situation{now: offerTime, fresh: true, offer: &record.Offer{State: record.OfferWaiting}, answered: true, answer: record.OfferRestore,
		job: queuedJob(func(j *kube.Job) {
			j.Workload.Active, j.Mark = false, &kube.JobMark{Job: "j", State: kube.MarkHolding}
		})}
	if d := plan(s); d.step != stepUnmark {
		t.Errorf("%s", d.step)
	}
}

// TestAHeldJobThatWasCancelledIsDeletedAlsoWhenItWasResumed by a client that knew nothing of that. One that was submitted
// elsewhere is not: it has started, and no owner has ordered its end.
func TestAHeldJobThatWasCancelledIsDeletedAlsoWhenItWasResumed(t *testing.T) {
	t.Parallel()
	running := func(mark kube.JobMark) *kube.Job {
		return waitingJob(func(j *kube.Job) { j.Generation, j.Pods[0].Node, j.Mark = 3, "n", &mark })
	}
	for name, job := range map[string]*kube.Job{
		"it is held":           heldJob(),
		"it was resumed":       running(kube.JobMark{Job: "j", State: kube.MarkHolding, Suspended: true}),
		"it is given up since": running(kube.JobMark{State: kube.MarkRestored, Times: 1, At: &offerTime}),
	} {
		s := situation{now: offerTime, fresh: true, job: job, offer: &record.Offer{State: record.OfferFrozen},
			answered: true, answer: record.OfferRelease, cancelled: true}
		if d := plan(s); d.step != stepDelete {
			t.Errorf("%s: %s", name, d.step)
		}
		if s.cancelled = false; plan(s).step == stepDelete {
			t.Errorf("%s: it is deleted for another member", name)
		}
		s.cancelled, s.job = true, waitingJob()
		if plan(s).step == stepDelete {
			t.Errorf("%s: a Job that we never held is deleted", name)
		}
	}
}
