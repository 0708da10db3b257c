package jobs

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.opentelemetry.io/otel/attribute"

	"github.com/oscarfed/oscarfed/store"
	"github.com/oscarfed/oscarfed/store/record"
	"github.com/oscarfed/oscarfed/syncer/originstorage"
	"github.com/oscarfed/oscarfed/syncer/session"
)

const (
	// maxJobBatch is how many reports are written in one transaction, and maxJobCompares
	// how many records they compare: each its assignment and, when OSCAR is to be asked,
	// the replica. A transaction reads and compares 128 at most, the session and the
	// cluster among them.
	maxJobBatch    = 100
	maxJobCompares = 120
)

// batches cuts reports into parts that one transaction each can hold.
func batches(changes []*change) [][]*change {
	var parts [][]*change
	from, replicas := 0, map[string]bool{}
	for i, c := range changes {
		compares := i - from + 1 + len(replicas)
		if c.replica != "" && !replicas[c.replica] {
			compares++
		}
		if i-from == maxJobBatch || compares > maxJobCompares {
			parts, from = append(parts, changes[from:i]), i
			clear(replicas)
		}
		if c.replica != "" {
			replicas[c.replica] = true
		}
	}
	if from < len(changes) {
		parts = append(parts, changes[from:])
	}
	return parts
}

// change is one report to be written.
type change struct {
	a *attempt
	// revision of the assignment that it answers.
	revision int64
	next     record.JobReport
	// replica, when not empty, must stand as it was decided upon.
	replica         string
	replicaRevision int64
}

// change makes the report of a decision.
func (j *Jobs) change(s *clusterView, a *attempt, decision decision) *change {
	c := &change{a: a, revision: a.revision, next: nextReport(a, decision, j.session.Lease.CreateRevision(), s.Epoch, s.now, j.session.Started)}
	if decision.step == stepBegin {
		c.replica, c.replicaRevision = a.service, s.of(a.service).revision
	}
	return c
}

// nextReport is the record that follows the attempt's last one.
func nextReport(a *attempt, d decision, session int64, epoch string, now, sessionStart time.Time) record.JobReport {
	next := record.JobReport{
		V: record.Version, State: d.state, Revision: a.revision, Session: session,
		Reason: d.reason, Status: d.status, Message: d.message, Pod: d.pod, LastTransitionTime: record.At(now), Epoch: epoch,
	}
	before := a.report
	if before != nil {
		next.PostedAt, next.StartedAt, next.Found, next.Service = before.PostedAt, before.StartedAt, before.Found, before.Service
		if before.State.Posted() {
			next.Session = before.Session
		}
	}
	if d.found {
		next.Found, next.Service = true, a.service
	}
	m := a.memory
	switch {
	case !m.lastPost.IsZero():
		next.PostedAt = new(record.At(m.lastPost))
	case d.state == record.JobSubmitting:
		next.PostedAt = new(record.At(now)) // a moment later
	case d.state == record.JobUncertain && (before == nil || next.Session != session):
		next.PostedAt = new(record.At(sessionStart)) // at the latest
	}
	if d.state == record.JobCancelled && (before == nil || !before.State.Posted()) || d.state == record.JobRefused && d.reason != record.JobCannotStart && m.posts == 0 {
		next.PostedAt = nil
	}
	if !d.startedAt.IsZero() {
		next.StartedAt = new(record.At(d.startedAt))
	}
	if !d.endedAt.IsZero() {
		next.EndedAt = new(record.At(d.endedAt))
	}
	return next
}

// commit writes reports in one transaction: all of those whose assignment is still as
// it was decided upon. It is written only while the session lives.
func (j *Jobs) commit(ctx context.Context, s *clusterView, changes []*change) {
	claims, begins, submits, ends := false, false, false, false
	for _, c := range changes {
		switch state := c.next.State; {
		case state == record.JobClaimed:
			claims = true
		case state == record.JobSubmitting:
			begins = true
		case state == record.JobSubmitted:
			submits = true
		case state.Ended():
			ends = true
		}
	}
	j.hit(claims, failBeforeClaim)
	j.hit(begins, failBeforeSubmitting)
	j.hit(submits, failBeforeSubmitted)
	j.hit(ends, failBeforeEnd)
	until := j.session.ReadIsGoodUntil()
	written, err := j.writeToTheEnd(ctx, s, changes)
	if half := len(changes) / 2; errors.Is(err, store.ErrTooLarge) && half > 0 {
		j.commit(ctx, s, changes[:half])
		j.commit(ctx, s, changes[half:])
		return
	}
	if err == nil {
		j.hit(claims, failAfterClaim)
		j.hit(begins, failAfterSubmitting)
		j.hit(submits, failAfterSubmitted)
		j.hit(ends, failAfterEnd)
	}
	j.settled(ctx, changes, written, until, err)
}

func (j *Jobs) hit(applies bool, point string) {
	if applies {
		j.session.FailPoints.Hit(point)
	}
}

// writeToTheEnd is write, not cut off when the syncer stops: what a report has promised to do is done
// before the end, so whether it was written has to be known.
func (j *Jobs) writeToTheEnd(ctx context.Context, s *clusterView, changes []*change) (map[*change]bool, error) {
	ctx, end := session.Outlive(ctx, j.cfg.StopGrace)
	defer end()
	return j.write(ctx, s, changes)
}

// write returns which of the changes were written.
func (j *Jobs) write(ctx context.Context, s *clusterView, changes []*change) (map[*change]bool, error) {
	clusterKey := record.DesiredClusterKey(j.session.ID)
	keys, mirrored := []string{j.session.Lease.Key()}, []string{clusterKey}
	for _, c := range changes {
		mirrored = append(mirrored, record.AssignmentKey(j.session.ID, c.a.job, c.a.number))
		if c.replica != "" {
			mirrored = append(mirrored, record.DesiredServiceKey(j.session.ID, c.replica))
		}
	}
	keys = append(keys, mirrored...)
	at := func(read store.View, key string) int64 {
		kv, _ := read.KV(key)
		return kv.ModRevision
	}
	var written map[*change]bool
	_, err := j.session.Store.Update(ctx, store.Update{
		Keys: keys,
		From: s.view.Guess(mirrored...),
		Build: func(read store.View, tx *store.Txn) error {
			written = map[*change]bool{}
			if at(read, clusterKey) != s.revision {
				return fmt.Errorf("%w: the desired cluster", session.ErrStale)
			}
			tx.ExpectSession(j.session.Lease)
			tx.ExpectRevision(clusterKey, s.revision)
			for _, c := range changes {
				key := record.AssignmentKey(j.session.ID, c.a.job, c.a.number)
				if at(read, key) != c.revision {
					continue // withdrawn, or changed
				}
				if c.replica != "" {
					replica := record.DesiredServiceKey(j.session.ID, c.replica)
					if at(read, replica) != c.replicaRevision {
						continue
					}
					tx.ExpectRevision(replica, c.replicaRevision)
				}
				tx.ExpectRevision(key, c.revision)
				tx.Put(record.JobReportKey(j.session.ID, c.a.job, c.a.number), c.next)
				written[c] = true
			}
			return nil
		},
	})
	if err != nil {
		return nil, err
	}
	return written, nil
}

// settled notes what was written and goes on with it; POSTs are to begin by until.
func (j *Jobs) settled(ctx context.Context, changes []*change, written map[*change]bool, until time.Time, err error) {
	j.session.LoseIfOver(err)
	j.mu.Lock()
	defer j.mu.Unlock()
	pause := 10 * time.Millisecond // until the mirror shows what has changed
	switch {
	case err == nil:
		j.retry = 0
	case errors.Is(err, session.ErrStale):
		j.retry = min(max(2*j.retry, pause), 10*time.Second)
		pause = j.retry
	default:
		j.retry = min(max(2*j.retry, 100*time.Millisecond), 10*time.Second)
		pause = j.retry
		if ctx.Err() == nil {
			j.session.Log.Warn("reports of jobs were not written; they are again", "reports", len(changes), "error", err, "pause", pause)
		}
	}
	for _, c := range changes {
		if !written[c] {
			j.due.AddAfter(c.a.key, pause)
			continue
		}
		a := c.a
		j.countClaimed(a, -1)
		a.report = &c.next
		j.countClaimed(a, 1)
		j.deps.Metrics.reports.WithLabelValues(string(c.next.State)).Inc()
		requestID := ""
		if a.assignment != nil {
			requestID = a.assignment.RequestID
		}
		j.cfg.Tracer.Past(requestID, "job "+string(c.next.State), j.session.Now(), attribute.String("job", a.job))
		j.session.Log.Debug("reported a job", "job", a.job, "attempt", a.number, "service", a.service, "state", c.next.State, "reason", c.next.Reason,
			"request_id", requestID)
		switch c.next.State {
		case record.JobFailed:
			j.deps.Origins.Failed(a.service, originstorage.FailedAge)
		case record.JobSubmitting:
			opened := a.opened
			a.opened, a.memory.busy, a.former = nil, true, time.Time{}
			j.calls.Go(func() { j.post(ctx, a, opened, until) })
			continue
		}
		j.deps.Process.told(a.key)
		if a.open() {
			j.watch(a.service)
		}
		j.due.Add(a.key)
	}
}

// last reports, once, what is known when the session ends in order.
func (j *Jobs) last(ctx context.Context) {
	if !j.session.Lease.Alive() {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), j.cfg.StopGrace)
	defer cancel()
	view := j.session.Mirror.Snapshot()
	s, err := j.view(view)
	if err != nil {
		return
	}
	var changes []*change
	j.mu.Lock()
	for _, a := range j.attempts {
		if a.memory.busy || a.assignment == nil || a.memory.posts == 0 {
			continue
		}
		if decision := plan(j.situationOf(s, a)); decision.step == stepReport {
			changes = append(changes, j.change(s, a, decision))
		}
	}
	j.mu.Unlock()
	left := len(changes)
	for _, part := range batches(changes) {
		if _, err := j.write(ctx, s, part); err != nil {
			j.session.Log.Warn("last reports of jobs were not written", "reports", left, "error", err)
			return
		}
		left -= len(part)
	}
}
