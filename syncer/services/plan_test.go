package services

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/oscarfed/oscarfed/store/record"
	"github.com/oscarfed/oscarfed/syncer/session"
)

const (
	uid      = "0199c3a2-5f11-7000-8000-000000000001"
	revision = 4711
	wanted   = "sha256:wanted"
	changed  = "sha256:changed"
)

var now = time.Date(2026, 11, 20, 13, 4, 5, 0, time.UTC)

func desired(intent record.Intent, change ...func(*record.Desired)) *record.Desired {
	d := &record.Desired{V: 1, Intent: intent, UID: uid, Generation: 2, Owner: "cluster_admin", Drift: "enforce"}
	for _, c := range change {
		c(d)
	}
	return d
}

func observed(phase record.Phase, change ...func(*record.Observed)) *record.Observed {
	o := &record.Observed{V: 1, Phase: phase, UID: uid, ObservedGeneration: 2, DesiredRevision: revision}
	for _, c := range change {
		c(o)
	}
	return o
}

// ready is the report of an applied generation.
func ready(change ...func(*record.Observed)) *record.Observed {
	return observed(record.PhaseReady, append([]func(*record.Observed){func(o *record.Observed) { o.ReadBack = wanted }}, change...)...)
}

func voted(answer string, at int64) *record.Observed {
	phase := record.PhasePrepared
	if answer == record.VoteNo {
		phase = record.PhaseRefused
	}
	return observed(phase, func(o *record.Observed) { o.Vote = &record.Vote{Answer: answer, Revision: at} })
}

func mine(change ...func(*local)) local {
	l := local{whose: ours, generation: 2, hash: wanted, storage: true, counted: true}
	for _, c := range change {
		c(&l)
	}
	return l
}

func later(d time.Duration) time.Time { return now.Add(d) }

func TestPlan(t *testing.T) {
	apply, tombstone, prepare := desired(record.IntentApply), desired(record.IntentDelete), desired(record.IntentPrepare)
	older := func(o *record.Observed) { o.ObservedGeneration = 1 }
	reportOnly := desired(record.IntentApply, func(d *record.Desired) { d.Drift = "report" })
	of41 := func(o *record.Observed) { o.OscarVersion = "4.1" }
	drift := func(l *local) { l.hash, l.differs = changed, "image" }
	stops := func(d *record.Desired) { d.RunState = record.RunStopped }
	toStop := desired(record.IntentApply, stops)
	wasStopped := func(o *record.Observed) { o.RunState = record.RunStopped }
	runs := func(l *local) { l.exposed, l.runState = true, record.RunStarted }
	halted := func(l *local) { l.runState = record.RunStopped }
	report1 := func(phase record.Phase, reason record.Reason) decision {
		return decision{act: report, phase: phase, reason: reason}
	}
	held1 := func(reason record.Reason) decision { return report1(record.PhaseHeld, reason) }
	paused := session.Standing{Stopped: true}

	for _, tc := range []struct {
		name string
		s    situation
		want decision // message is not compared
	}{
		{"nothing is desired", situation{local: mine()}, decision{act: rest}},
		{"unknown intent", situation{desired: desired("explode"), local: mine()}, decision{act: rest}},

		// Votes.
		{"prepare", situation{desired: prepare}, decision{act: castVote}},
		{"prepare, answered yes", situation{desired: prepare, observed: voted("yes", revision), resync: true}, decision{act: rest}},
		{"prepare, answered no", situation{desired: prepare, observed: voted("no", revision)}, decision{act: rest}},
		{"prepare, answered no, at a resync", situation{desired: prepare, observed: voted("no", revision), resync: true}, decision{act: castVote}},
		{"prepare, the answer is of an older attempt", situation{desired: prepare, observed: voted("yes", revision-1)}, decision{act: castVote}},
		{"prepare, too late by our clock, which nobody else goes by", situation{desired: desired(record.IntentPrepare, func(d *record.Desired) { d.Deadline = new(record.At(later(-time.Second))) })}, decision{act: castVote}},
		{"prepare, in time", situation{desired: desired(record.IntentPrepare, func(d *record.Desired) { d.Deadline = new(record.At(later(time.Second))) })}, decision{act: castVote}},

		// Absent.
		{"create", situation{desired: apply, observed: voted("yes", 1)}, decision{act: create}},
		{"create without a report", situation{desired: apply}, decision{act: create}},
		{"create, paused cluster", situation{desired: apply, Standing: paused}, decision{act: rest}},
		{"create, paused service", situation{desired: desired(record.IntentApply, func(d *record.Desired) { d.Paused = true })}, decision{act: rest}},
		{"create, paused service, in another epoch", situation{fresh: true, desired: desired(record.IntentApply, func(d *record.Desired) { d.Paused, d.Generation = true, 1 }), Standing: session.Standing{Epoch: "e"}}, report1(record.PhasePending, record.ReasonPaused)},
		{"made again when the pause ends", situation{fresh: true, desired: desired(record.IntentApply, func(d *record.Desired) { d.Paused, d.Again = true, true }), observed: observed(record.PhaseHeld, older)}, report1(record.PhasePending, record.ReasonPaused)},
		{"create, a POST is unanswered", situation{fresh: true, desired: apply, memory: memory{postUntil: later(time.Minute)}}, decision{act: look, after: pollWrite}},
		{"create, a POST was unanswered long ago", situation{desired: apply, memory: memory{postUntil: later(-time.Second)}}, decision{act: create}},
		{"create, our DELETE is unanswered", situation{fresh: true, desired: apply, memory: memory{deleteUntil: later(time.Second)}}, decision{act: look, after: time.Second}},
		{"create failed for good", situation{fresh: true, desired: apply, memory: memory{tried: create, notBefore: later(time.Minute), final: true, failure: &failure{reason: record.ReasonCreateFailed, message: "why"}}},
			decision{act: report, phase: record.PhaseFailed, reason: record.ReasonCreateFailed, after: time.Minute}},
		{"create failed once", situation{fresh: true, desired: apply, memory: memory{tried: create, notBefore: later(time.Second), failure: &failure{reason: record.ReasonCreateFailed, message: "why"}}},
			decision{act: report, phase: record.PhaseApplying, reason: record.ReasonCreateFailed, after: time.Second}},
		{"a repair failed once", situation{fresh: true, desired: apply, observed: ready(), memory: memory{tried: create, notBefore: later(time.Second), failure: &failure{reason: record.ReasonCreateFailed, message: "why"}}},
			decision{act: report, phase: record.PhaseDrifted, reason: record.ReasonCreateFailed, after: time.Second}},
		{"a repair that failed once is tried again", situation{desired: apply, observed: observed(record.PhaseDrifted, func(o *record.Observed) { o.ReadBack, o.Operation = wanted, "create" })}, decision{act: create, repair: true}},
		{"create is tried again", situation{desired: apply, memory: memory{tried: create, notBefore: later(0), failure: &failure{}}}, decision{act: create}},
		{"an update failed, then it vanished", situation{desired: apply, memory: memory{tried: update, notBefore: later(time.Minute)}}, decision{act: create}},
		{"vanished", situation{desired: apply, observed: ready()}, decision{act: create, repair: true, drifted: true}},
		{"vanished, told already that it fails", situation{desired: apply, observed: observed(record.PhaseFailed, func(o *record.Observed) { o.ReadBack = wanted })}, decision{act: create, repair: true}},
		{"vanished before a change", situation{desired: apply, observed: ready(older)}, decision{act: create}},
		{"vanished, report only", situation{fresh: true, desired: desired(record.IntentApply, func(d *record.Desired) { d.Drift = "report" }), observed: ready()}, report1(record.PhaseDrifted, record.ReasonDrifted)},
		{"not listed, report only", situation{desired: desired(record.IntentApply, func(d *record.Desired) { d.Drift = "report" }), observed: ready()}, decision{act: reread}},
		{"vanished, paused", situation{fresh: true, desired: apply, observed: ready(), Standing: paused}, report1(record.PhaseDrifted, record.ReasonPaused)},

		// Not ours.
		{"foreign while applying", situation{desired: apply, observed: voted("yes", 1), local: local{whose: foreign}}, report1(record.PhaseFailed, record.ReasonNameTaken)},
		{"foreign in the place of ours", situation{desired: apply, observed: ready(), local: local{whose: foreign}}, held1(record.ReasonNameTaken)},
		{"made again with our annotations", situation{desired: apply, observed: ready(), local: local{whose: markLost, generation: 2}}, held1(record.ReasonMarkLost)},
		{"another life", situation{desired: apply, local: local{whose: otherLife}}, held1(record.ReasonAheadOfDesired)},
		{"ahead", situation{desired: apply, local: mine(func(l *local) { l.generation = 3 })}, held1(record.ReasonAheadOfDesired)},

		// Present.
		{"as asked, from a list", situation{desired: apply, local: mine()}, decision{act: reread}},
		{"as asked, read", situation{desired: apply, local: mine(), fresh: true}, decision{act: settle}},
		{"not as asked", situation{desired: apply, local: mine(func(l *local) { l.differs = "input" })}, decision{act: update}},
		{"marks dropped before the report", situation{desired: apply, local: mine(func(l *local) { l.generation = 0 })}, decision{act: update}},
		{"older generation", situation{desired: apply, observed: ready(older), local: mine(func(l *local) { l.generation, l.differs = 1, "image" })}, decision{act: update}},
		{"older generation, paused", situation{desired: apply, observed: ready(older), Standing: paused, local: mine(func(l *local) { l.generation, l.differs = 1, "image" })}, decision{act: rest}},
		{"older generation, paused, in another epoch", situation{desired: apply, observed: ready(older), Standing: session.Standing{Stopped: true, Epoch: "e"}, local: mine(func(l *local) { l.generation, l.differs = 1, "image" })}, report1(record.PhasePending, record.ReasonPaused)},
		{"change failed a moment ago", situation{desired: apply, observed: ready(older), local: mine(func(l *local) { l.generation, l.differs = 1, "image" }), memory: memory{tried: update, notBefore: later(time.Second), failure: &failure{reason: record.ReasonUpdateFailed, message: "why"}}},
			decision{act: report, phase: record.PhaseApplying, reason: record.ReasonUpdateFailed, after: time.Second}},
		{"without its buckets, POST at work", situation{desired: apply, fresh: true, local: mine(func(l *local) { l.missing = []string{"b"} }), memory: memory{workingUntil: later(time.Second)}}, decision{act: look, after: time.Second}},
		{"without its buckets", situation{desired: apply, fresh: true, local: mine(func(l *local) { l.missing = []string{"b"} })}, report1(record.PhaseFailed, record.ReasonCreateFailed)},
		{"a worker without its buckets", situation{desired: apply, fresh: true, local: mine(func(l *local) { l.worker, l.missing = true, []string{"b"} })}, decision{act: update}},
		{"a worker without its buckets, paused, in another epoch", situation{desired: apply, fresh: true, Standing: session.Standing{Stopped: true, Epoch: "e"}, local: mine(func(l *local) { l.worker, l.missing = true, []string{"b"} })}, report1(record.PhasePending, record.ReasonPaused)},
		{"changed, without a new bucket", situation{desired: apply, fresh: true, observed: ready(older), local: mine(func(l *local) { l.missing = []string{"b"} })}, decision{act: update}},
		{"undisturbed", situation{desired: apply, observed: ready(), local: mine()}, report1(record.PhaseReady, record.ReasonApplied)},
		{"vanished, its buckets may go, too", situation{desired: apply, fresh: true, observed: ready(), local: local{leaves: true}, memory: memory{goneSince: now.Add(-time.Second)}},
			decision{act: report, phase: record.PhaseDrifted, reason: record.ReasonDrifted, after: pollWrite}},
		{"vanished before a change was in place, its buckets may go, too", situation{desired: apply, fresh: true, observed: ready(older), local: local{leaves: true}, memory: memory{goneSince: now.Add(-time.Second)}},
			decision{act: look, after: pollWrite}},
		{"vanished, its Secret stands: no DELETE is at work", situation{desired: apply, fresh: true, observed: ready(), local: local{leaves: true, secretAlone: true}, memory: memory{goneSince: now.Add(-time.Second)}}, decision{act: create, repair: true, drifted: true}},
		{"vanished, its buckets stay", situation{desired: apply, fresh: true, observed: ready(), local: local{leaves: true}, memory: memory{goneSince: now.Add(-postTakes)}}, decision{act: create, repair: true, drifted: true}},
		{"undisturbed, uploads start no job", situation{desired: apply, observed: ready(), local: mine(func(l *local) { l.silent = []string{"b"} })}, report1(record.PhaseDrifted, record.ReasonWebhookLost)},
		{"listed and not readable, at first", situation{desired: apply, fresh: true, local: mine(func(l *local) { l.half = true }), memory: memory{halfSince: now}}, decision{act: look, after: pollWrite}},
		{"listed and not readable", situation{desired: apply, fresh: true, local: mine(func(l *local) { l.half = true })}, decision{act: heal, phase: record.PhaseWedged, reason: record.ReasonCreateFailed}},
		{"listed and not readable, not healed", situation{desired: apply, fresh: true, local: mine(func(l *local) { l.half = true }), memory: memory{tried: heal, notBefore: later(time.Minute), failure: &failure{}}},
			decision{act: report, phase: record.PhaseWedged, reason: record.ReasonCreateFailed, after: pollJobs}},

		// A POST that was not answered with success.
		{"perhaps without a webhook", situation{desired: apply, fresh: true, local: mine(), memory: memory{unconfirmed: true}}, decision{act: register}},
		{"perhaps without a webhook, not as asked", situation{desired: apply, fresh: true, local: mine(func(l *local) { l.differs = "image" }), memory: memory{unconfirmed: true}}, decision{act: register}},
		{"perhaps without a webhook, POST at work", situation{desired: apply, fresh: true, local: mine(), memory: memory{unconfirmed: true, registerFrom: later(time.Minute)}}, decision{act: look, after: pollWrite}},
		{"perhaps without a webhook, paused", situation{desired: apply, fresh: true, Standing: paused, local: mine(), memory: memory{unconfirmed: true}}, decision{act: rest}},
		{"perhaps without a webhook, stopped", situation{desired: toStop, fresh: true, local: mine(runs, halted), memory: memory{unconfirmed: true}}, decision{act: start}},
		{"its buckets show that it has a webhook", situation{desired: apply, fresh: true, local: mine(func(l *local) { l.makes = true }), memory: memory{unconfirmed: true}}, decision{act: settle}},
		{"its buckets show that it has a webhook, POST at work", situation{desired: apply, fresh: true, local: mine(func(l *local) { l.makes = true }), memory: memory{unconfirmed: true, registerFrom: later(time.Minute)}}, decision{act: look, after: pollWrite}},
		{"a coordinator without its buckets", situation{desired: apply, fresh: true, local: mine(func(l *local) { l.makes, l.missing = true, []string{"b"} }), memory: memory{unconfirmed: true}}, report1(record.PhaseFailed, record.ReasonCreateFailed)},
		{"a coordinator without its buckets, and the report forgotten, report only", situation{desired: desired(record.IntentApply, func(d *record.Desired) { d.Drift, d.Told = "report", &record.Told{Applied: d.Generation} }), fresh: true, local: mine(func(l *local) { l.makes, l.missing = true, []string{"b"} })}, report1(record.PhaseDrifted, record.ReasonDrifted)},
		{"a coordinator without its buckets, changed, and the report forgotten", situation{desired: desired(record.IntentApply, func(d *record.Desired) { d.Told = &record.Told{Applied: d.Generation - 1} }), fresh: true, local: mine(func(l *local) { l.makes, l.missing = true, []string{"b"} })}, decision{act: update}},
		{"a worker without its buckets, perhaps without a webhook", situation{desired: apply, fresh: true, local: mine(func(l *local) { l.makes, l.worker, l.missing = true, true, []string{"b"} }), memory: memory{unconfirmed: true}}, decision{act: register}},
		{"made again without its buckets", situation{desired: apply, fresh: true, observed: ready(), local: mine(func(l *local) { l.makes, l.missing = true, []string{"b"} }), memory: memory{unconfirmed: true}}, decision{act: register}},
		{"made again, perhaps without a webhook", situation{desired: apply, fresh: true, observed: ready(), local: mine(), memory: memory{unconfirmed: true}}, decision{act: register}},
		{"made again, perhaps without a webhook, paused", situation{desired: apply, fresh: true, Standing: paused, observed: ready(), local: mine(), memory: memory{unconfirmed: true}}, decision{act: rest}},
		{"perhaps without a webhook, report only, and the report forgotten", situation{desired: desired(record.IntentApply, func(d *record.Desired) { d.Drift, d.Told = "report", &record.Told{Applied: d.Generation} }), fresh: true, local: mine(drift), memory: memory{unconfirmed: true}}, report1(record.PhaseDrifted, record.ReasonDrifted)},
		{"made again, perhaps without a webhook, report only", situation{desired: reportOnly, fresh: true, observed: ready(), local: mine(), memory: memory{unconfirmed: true}}, report1(record.PhaseReady, record.ReasonApplied)},

		// Drift.
		{"drift", situation{desired: apply, observed: ready(), local: mine(drift)}, decision{act: update, repair: true, drifted: true}},
		{"drift, repaired, with something of OSCAR's lost", situation{desired: apply, fresh: true, observed: ready(), updated: true, local: mine(func(l *local) { l.hash = changed })}, decision{act: settle}},
		{"drift, changed again", situation{desired: apply, fresh: true, observed: ready(), updated: true, local: mine(drift)}, decision{act: update, repair: true, drifted: true}},
		{"drift, repaired, without a bucket", situation{desired: apply, fresh: true, observed: ready(), updated: true, local: mine(func(l *local) { l.hash, l.missing = changed, []string{"b"} })}, decision{act: update, repair: true, drifted: true}},
		{"changed in what was not asked", situation{desired: apply, fresh: true, observed: ready(), local: mine(func(l *local) { l.hash = changed })}, decision{act: update, repair: true, drifted: true}},
		{"marks dropped", situation{desired: apply, observed: ready(), local: mine(drift, func(l *local) { l.generation = 0 })}, decision{act: update, repair: true, drifted: true}},
		{"drift, report only", situation{desired: desired(record.IntentApply, func(d *record.Desired) { d.Drift = "report" }), observed: ready(), local: mine(drift)}, report1(record.PhaseDrifted, record.ReasonDrifted)},
		{"drift, report only, and the report forgotten, from a list", situation{desired: reportOnly, local: mine(drift)}, decision{act: reread}},
		{"drift, report only, and the report forgotten", situation{desired: reportOnly, fresh: true, local: mine(drift)}, report1(record.PhaseDrifted, record.ReasonDrifted)},
		{"the same, and reported", situation{desired: reportOnly, fresh: true, observed: observed(record.PhaseDrifted), local: mine(drift)}, report1(record.PhaseDrifted, record.ReasonDrifted)},
		{"drift, and the report forgotten", situation{desired: apply, fresh: true, local: mine(drift)}, decision{act: update}},
		{"a change, report only, and the report forgotten", situation{desired: reportOnly, fresh: true, local: mine(drift, func(l *local) { l.generation = 1 })}, decision{act: update}},
		{"another version of OSCAR, report only, from a list", situation{desired: reportOnly, observed: ready(of41), version: "4.2", local: mine(func(l *local) { l.hash = changed })}, decision{act: reread}},
		{"another version of OSCAR, report only", situation{desired: reportOnly, fresh: true, observed: ready(of41), version: "4.2", local: mine(func(l *local) { l.hash = changed })}, decision{act: settle}},
		{"changed in what was not asked, report only, from a list", situation{desired: reportOnly, observed: ready(of41), version: "4.1", local: mine(func(l *local) { l.hash = changed })}, decision{act: reread}},
		{"the same version of OSCAR, report only", situation{desired: reportOnly, fresh: true, observed: ready(of41), version: "4.1", local: mine(func(l *local) { l.hash = changed })}, report1(record.PhaseDrifted, record.ReasonDrifted)},
		{"a version of OSCAR that is not known, report only", situation{desired: reportOnly, fresh: true, observed: ready(of41), local: mine(func(l *local) { l.hash = changed })}, decision{act: rest}},
		{"a version of OSCAR that is not known, and drift, report only", situation{desired: reportOnly, fresh: true, observed: ready(of41), local: mine(drift)}, report1(record.PhaseDrifted, record.ReasonDrifted)},
		{"a version of OSCAR that is not known, and no bucket, report only", situation{desired: reportOnly, fresh: true, observed: ready(of41), local: mine(func(l *local) { l.hash, l.missing = changed, []string{"b"} })}, report1(record.PhaseDrifted, record.ReasonDrifted)},
		{"a report without a version of OSCAR, report only", situation{desired: reportOnly, fresh: true, observed: ready(), version: "4.2", local: mine(func(l *local) { l.hash = changed })}, report1(record.PhaseDrifted, record.ReasonDrifted)},
		{"another version of OSCAR, and drift, report only", situation{desired: reportOnly, fresh: true, observed: ready(of41), version: "4.2", local: mine(drift)}, report1(record.PhaseDrifted, record.ReasonDrifted)},
		{"another version of OSCAR, and no bucket, report only", situation{desired: reportOnly, fresh: true, observed: ready(of41), version: "4.2", local: mine(func(l *local) { l.hash, l.missing = changed, []string{"b"} })}, report1(record.PhaseDrifted, record.ReasonDrifted)},
		{"drift, paused", situation{desired: desired(record.IntentApply, func(d *record.Desired) { d.Paused = true }), observed: ready(), local: mine(drift)}, report1(record.PhaseDrifted, record.ReasonPaused)},
		{"drift after three repairs", situation{desired: apply, observed: ready(), local: mine(drift), memory: memory{repairs: 3}}, report1(record.PhaseDrifted, record.ReasonDriftUnfixable)},
		{"drift that was given up", situation{desired: apply, observed: ready(), local: mine(drift), memory: memory{repairs: 3, unfixable: changed}}, report1(record.PhaseDrifted, record.ReasonDriftUnfixable)},
		{"another drift than that given up", situation{desired: apply, observed: ready(), local: mine(drift), memory: memory{repairs: 3, unfixable: "sha256:other"}}, decision{act: update, repair: true, drifted: true}},

		// Exposed services that are started and stopped.
		{"to be stopped", situation{desired: toStop, observed: ready(), local: mine(runs)}, decision{act: stop}},
		{"to be stopped, paused", situation{desired: desired(record.IntentApply, stops, func(d *record.Desired) { d.Paused = true }), observed: ready(), local: mine(runs)}, decision{act: rest}},
		{"to be stopped, and it failed", situation{desired: toStop, observed: ready(), local: mine(runs), memory: memory{tried: stop, notBefore: later(time.Minute), failure: &failure{reason: record.ReasonUpdateFailed, message: "why"}}},
			decision{act: report, phase: record.PhaseDrifted, reason: record.ReasonUpdateFailed, after: time.Minute}},
		{"to be stopped when it is made", situation{desired: toStop, fresh: true, local: mine(runs)}, decision{act: stop}},
		{"stopped", situation{desired: toStop, observed: ready(), local: mine(runs, halted)}, report1(record.PhaseReady, record.ReasonApplied)},
		{"stopped, and started by hand", situation{desired: toStop, observed: ready(wasStopped), local: mine(runs)}, decision{act: stop, repair: true, drifted: true}},
		{"stopped, and started by hand three times", situation{desired: toStop, observed: ready(wasStopped), local: mine(runs), memory: memory{repairs: 3}}, report1(record.PhaseDrifted, record.ReasonDriftUnfixable)},
		{"stopped, and started by hand, report only", situation{desired: desired(record.IntentApply, stops, func(d *record.Desired) { d.Drift = "report" }), observed: ready(wasStopped), local: mine(runs)}, report1(record.PhaseDrifted, record.ReasonDrifted)},
		{"stopped, and changed", situation{desired: toStop, observed: ready(older, wasStopped), local: mine(runs, halted, drift)}, decision{act: start}},
		{"stopped, and drifted", situation{desired: toStop, observed: ready(wasStopped), local: mine(runs, halted, drift)}, decision{act: start}},
		{"stopped, drifted, and repaired", situation{desired: toStop, fresh: true, observed: ready(wasStopped), updated: true, local: mine(runs, func(l *local) { l.hash = changed })}, decision{act: stop, repair: true, drifted: true}},
		{"stopped without an order", situation{desired: apply, observed: ready(), local: mine(runs, halted)}, report1(record.PhaseReady, record.ReasonApplied)},
		{"not exposed", situation{desired: toStop, observed: ready(), local: mine()}, report1(record.PhaseReady, record.ReasonApplied)},
		{"tombstone, ours, stopped", situation{desired: tombstone, local: mine(runs, halted)}, decision{act: start}},

		// Tombstones.
		{"tombstone, absent", situation{fresh: true, desired: tombstone}, decision{act: acknowledge}},
		{"tombstone, not listed", situation{desired: tombstone}, decision{act: reread}},
		{"tombstone, foreign, from a list", situation{desired: tombstone, local: local{whose: foreign}}, decision{act: reread}},
		{"tombstone, acknowledged", situation{desired: tombstone, observed: observed(record.PhaseDeleted)}, decision{act: rest}},
		{"tombstone, acknowledged at another revision", situation{fresh: true, desired: tombstone, observed: observed(record.PhaseDeleted, func(o *record.Observed) { o.DesiredRevision-- })}, decision{act: acknowledge}},
		{"tombstone, a POST is unanswered", situation{fresh: true, desired: tombstone, memory: memory{postUntil: later(time.Minute)}}, decision{act: look, after: pollWrite}},
		{"tombstone, a POST is unanswered for long", situation{fresh: true, desired: tombstone, memory: memory{late: 5 * time.Minute, postUntil: later(time.Minute)}}, decision{act: look, after: 30 * time.Second}},
		{"tombstone, a late DELETE soon has no effect any more", situation{fresh: true, desired: tombstone, memory: memory{late: 5 * time.Minute, lateDeleteUntil: later(3 * time.Second)}}, decision{act: look, after: 3 * time.Second}},
		{"tombstone, our DELETE is unanswered", situation{fresh: true, desired: tombstone, memory: memory{deleteUntil: later(time.Minute)}}, decision{act: look, after: pollWrite}},
		{"tombstone, ours", situation{desired: tombstone, local: mine()}, decision{act: detach}},
		{"tombstone, ours, detached", situation{desired: tombstone, local: mine(func(l *local) { l.storage = false })}, decision{act: erase}},
		{"tombstone, ours, older", situation{desired: tombstone, local: mine(func(l *local) { l.generation = 1 })}, decision{act: detach}},
		{"tombstone, ours, marks dropped", situation{desired: tombstone, local: mine(func(l *local) { l.generation = 0 })}, decision{act: detach}},
		{"tombstone, ours, ahead", situation{desired: tombstone, local: mine(func(l *local) { l.generation = 3 })}, held1(record.ReasonAheadOfDesired)},
		{"tombstone, ours, marks dropped, reported ahead", situation{desired: tombstone, observed: ready(func(o *record.Observed) { o.ObservedGeneration = 3 }), local: mine(func(l *local) { l.generation = 0 })}, held1(record.ReasonAheadOfDesired)},
		{"tombstone, running jobs", situation{desired: tombstone, local: mine(func(l *local) { l.running = 1 })}, decision{act: report, phase: record.PhaseDeleting, reason: record.ReasonJobsRunning, after: pollJobs}},
		{"tombstone, running jobs, cancel", situation{desired: desired(record.IntentDelete, func(d *record.Desired) { d.Jobs = "cancel" }), local: mine(func(l *local) { l.running = 1 })}, decision{act: detach}},
		{"tombstone, jobs not counted", situation{desired: tombstone, local: mine(func(l *local) { l.counted = false })}, decision{act: count}},
		{"tombstone, jobs cannot be counted", situation{desired: tombstone, local: mine(func(l *local) { l.counted, l.uncounted = false, "why" })}, report1(record.PhaseFailed, record.ReasonDeleteFailed)},
		{"tombstone, jobs cannot be counted, cancel", situation{desired: desired(record.IntentDelete, func(d *record.Desired) { d.Jobs = "cancel" }), local: mine(func(l *local) { l.counted, l.uncounted = false, "why" })}, decision{act: detach}},
		{"tombstone, jobs not counted, one is known", situation{desired: tombstone, local: mine(func(l *local) { l.counted, l.running = false, 1 })}, decision{act: report, phase: record.PhaseDeleting, reason: record.ReasonJobsRunning, after: pollJobs}},
		{"tombstone, jobs not counted, cancel", situation{desired: desired(record.IntentDelete, func(d *record.Desired) { d.Jobs = "cancel" }), local: mine(func(l *local) { l.counted = false })}, decision{act: detach}},
		{"tombstone, paused cluster", situation{desired: tombstone, local: mine(), Standing: paused}, decision{act: rest}},
		{"tombstone, foreign", situation{fresh: true, desired: tombstone, local: local{whose: foreign}}, decision{act: acknowledge}},
		{"tombstone, foreign, a POST is unanswered", situation{fresh: true, desired: tombstone, local: local{whose: foreign}, memory: memory{postUntil: later(time.Second)}}, decision{act: look, after: time.Second}},
		{"tombstone, made again with our annotations", situation{fresh: true, desired: tombstone, local: local{whose: markLost}}, decision{act: acknowledge}},
		{"tombstone, another life", situation{desired: tombstone, local: local{whose: otherLife}}, decision{act: reread}},
		{"tombstone, another life for certain", situation{fresh: true, desired: tombstone, local: local{whose: otherLife}}, decision{act: acknowledge}},
		{"tombstone, listed and not readable", situation{desired: tombstone, fresh: true, local: mine(func(l *local) { l.half = true })}, decision{act: heal, phase: record.PhaseWedged, reason: record.ReasonDeleteFailed}},
		{"tombstone, detach failed", situation{desired: tombstone, local: mine(), memory: memory{tried: detach, notBefore: later(time.Second), failure: &failure{reason: record.ReasonDetachFailed, message: "why"}}},
			decision{act: report, phase: record.PhaseDeleting, reason: record.ReasonDetachFailed, after: time.Second}},
		{"tombstone with data", situation{fresh: true, desired: desired(record.IntentDelete, func(d *record.Desired) { d.Data = "delete" }), observed: ready(func(o *record.Observed) { o.BucketsMade = []string{"b"} })}, decision{act: dropBuckets}},
		{"tombstone with data, dropped", situation{fresh: true, desired: desired(record.IntentDelete, func(d *record.Desired) { d.Data = "delete" }), observed: ready(func(o *record.Observed) { o.BucketsMade = []string{"b"} }), memory: memory{bucketsDropped: true}}, decision{act: acknowledge}},
		{"tombstone with data, the owner's token is asked for", situation{fresh: true, desired: desired(record.IntentDelete, func(d *record.Desired) { d.Data = "delete" }), observed: ready(func(o *record.Observed) { o.BucketsMade = []string{"b"} }), token: ownerToken{needed: true, pending: true, reason: record.ReasonNeedsUserToken}}, decision{act: look, after: pollWrite}},
		{"tombstone with data, there is no token of the owner", situation{fresh: true, desired: desired(record.IntentDelete, func(d *record.Desired) { d.Data = "delete" }), observed: ready(func(o *record.Observed) { o.BucketsMade = []string{"b"} }), token: ownerToken{needed: true, reason: record.ReasonNeedsUserToken}}, decision{act: dropBuckets}},
		{"tombstone without data", situation{fresh: true, desired: tombstone, observed: ready(func(o *record.Observed) { o.BucketsMade = []string{"b"} })}, decision{act: acknowledge}},
	} {
		tc.s.now, tc.s.revision = now, revision
		got := plan(tc.s)
		if got.act == report && got.phase != record.PhaseReady && got.message == "" {
			t.Errorf("%s: a report without a message", tc.name)
		}
		if waits := !got.until.IsZero(); waits && got.until.Before(now.Add(got.after)) {
			t.Errorf("%s: it looks again when it no longer waits", tc.name)
		}
		got.message, got.operation, got.status, got.held, got.until = "", "", 0, nil, time.Time{}
		if got != tc.want {
			t.Errorf("%s:\n got %+v\nwant %+v", tc.name, got, tc.want)
		}
	}
}

// TestPlanNeverHarms looks for a situation in which plan would break a promise.
func TestPlanNeverHarms(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := anySituation(t)
		d := plan(s)
		deletes := d.act == detach || d.act == erase || d.act == dropBuckets
		tombstone := s.desired != nil && s.desired.Tombstone()
		touches := d.act == start || d.act == stop || d.act == update || d.act == register || d.act == detach || d.act == erase
		switch {
		case d.act.writes() && s.desired == nil:
			t.Fatal("absence of a desired record was taken for an order")
		case deletes && !tombstone:
			t.Fatal("something is deleted without a tombstone")
		case touches && s.local.whose != ours:
			t.Fatalf("%s of a service that is not ours", d.act)
		case touches && s.local.epoch == s.desired.Epoch && s.local.generation > s.desired.Generation:
			t.Fatalf("%s of a service that is ahead", d.act)
		case d.act == erase && s.local.storage:
			t.Fatal("a service is deleted with its buckets")
		case (d.act == detach || d.act == erase) && (s.local.running > 0 || !s.local.counted) && s.desired.Jobs != "cancel":
			t.Fatal("a running job is killed")
		case d.act == dropBuckets && s.desired.Data != "delete":
			t.Fatal("buckets are deleted without an order")
		case d.act == create && (s.local.whose != noService || s.unanswered() > 0):
			t.Fatal("a POST for a name that is taken or in doubt")
		case d.act == acknowledge && !s.fresh:
			t.Fatal("a tombstone is acknowledged on a list alone")
		case d.act == acknowledge && (s.local.whose == ours || s.unanswered() > 0):
			t.Fatal("a tombstone is acknowledged while the service is, or may still appear")
		case d.act.writes() && s.Restored:
			t.Fatal("a write while the store's history is in doubt")
		case touches && s.local.generation > 0 && !s.desired.Covers(s.local.epoch, s.local.generation):
			t.Fatalf("%s of a service of a lost history", d.act)
		case d.act == create && !s.desired.Again && s.observed != nil && s.observed.Epoch != s.Epoch && s.observed.ReadBack != "":
			t.Fatal("a service that was perhaps deleted in a lost history is made again")
		case (d.act == update || d.act == register || d.act == detach || d.act == release) && s.local.runState == record.RunStopped:
			t.Fatal("a PUT of a stopped service, which fails and starts it")
		case d.act == stop && s.desired.RunState != record.RunStopped:
			t.Fatal("a service is stopped without an order")
		case d.act.writes() && s.Stopped:
			t.Fatal("a write on a paused cluster")
		case d.act == settle && (!s.fresh || len(s.local.missing) > 0 || s.local.differs != ""):
			t.Fatal("ready without having read it back")
		}
	})
}

func anySituation(t *rapid.T) situation {
	instants := rapid.SampledFrom([]time.Time{{}, later(-time.Minute), later(time.Minute)})
	hashes := rapid.SampledFrom([]string{"", wanted, changed})
	runStates := []record.RunState{"", record.RunStarted, record.RunStopped}
	epochs := rapid.SampledFrom([]string{"", "e1", "e2"})
	s := situation{
		Standing: session.Standing{Stopped: rapid.Bool().Draw(t, "stopped"), Epoch: epochs.Draw(t, "epoch"), Restored: rapid.IntRange(0, 9).Draw(t, "restored") == 0},
		now:      now, revision: revision,
		updated: rapid.Bool().Draw(t, "updated"), version: rapid.SampledFrom([]string{"", "4.1", "4.2"}).Draw(t, "version"), resync: rapid.Bool().Draw(t, "resync"), fresh: rapid.Bool().Draw(t, "fresh"),
		local: local{
			whose:      whose(rapid.IntRange(0, 4).Draw(t, "whose")),
			generation: rapid.Int64Range(0, 3).Draw(t, "have"),
			epoch:      epochs.Draw(t, "its epoch"),
			hash:       hashes.Draw(t, "hash"),
			storage:    rapid.Bool().Draw(t, "storage"),
			worker:     rapid.Bool().Draw(t, "worker"),
			makes:      rapid.Bool().Draw(t, "makes"),
			half:       rapid.Bool().Draw(t, "half"),
			differs:    rapid.SampledFrom([]string{"", "image"}).Draw(t, "differs"),
			running:    rapid.IntRange(0, 1).Draw(t, "running"),
			counted:    rapid.Bool().Draw(t, "counted"),
			exposed:    rapid.Bool().Draw(t, "exposed"),
			runState:   rapid.SampledFrom(runStates).Draw(t, "runs"),
		},
		memory: memory{
			postUntil: instants.Draw(t, "post"), deleteUntil: instants.Draw(t, "delete"), workingUntil: instants.Draw(t, "working"),
			tried: act(rapid.IntRange(0, int(stop)).Draw(t, "tried")), notBefore: instants.Draw(t, "not before"), failure: &failure{},
			repairs: rapid.IntRange(0, 4).Draw(t, "repairs"), unfixable: hashes.Draw(t, "unfixable"),
			unconfirmed: rapid.IntRange(0, 9).Draw(t, "unconfirmed") == 0,
			bucketsMade: rapid.Bool().Draw(t, "noted"), bucketsDropped: rapid.Bool().Draw(t, "dropped"),
		},
	}
	if rapid.Bool().Draw(t, "missing") {
		s.local.missing = []string{"b"}
	}
	if intent := rapid.SampledFrom([]record.Intent{"", record.IntentPrepare, record.IntentApply, record.IntentDelete}).Draw(t, "intent"); intent != "" {
		s.desired = desired(intent, func(d *record.Desired) {
			d.Drift = rapid.SampledFrom([]string{"", "enforce", "report"}).Draw(t, "drift")
			d.Data = rapid.SampledFrom([]string{"", "delete"}).Draw(t, "data")
			d.Jobs = rapid.SampledFrom([]string{"", "cancel"}).Draw(t, "jobs")
			d.RunState = rapid.SampledFrom(runStates).Draw(t, "run state")
			d.Paused = rapid.Bool().Draw(t, "paused")
			d.Epoch = epochs.Draw(t, "desired epoch")
			if rapid.Bool().Draw(t, "has a past") {
				d.Past = []record.Branch{{Epoch: epochs.Draw(t, "past epoch"), Generation: rapid.Int64Range(1, 3).Draw(t, "past generation")}}
			}
			d.Again = rapid.Bool().Draw(t, "again")
		})
	}
	if rapid.Bool().Draw(t, "reported") {
		s.observed = observed(rapid.SampledFrom([]record.Phase{record.PhasePrepared, record.PhaseReady, record.PhaseFailed, record.PhaseDeleted}).Draw(t, "phase"),
			func(o *record.Observed) {
				o.ReadBack = hashes.Draw(t, "read back")
				o.OscarVersion = rapid.SampledFrom([]string{"", "4.1", "4.2"}).Draw(t, "its version")
				o.Epoch = epochs.Draw(t, "observed epoch")
				o.ObservedGeneration = rapid.Int64Range(1, 3).Draw(t, "observed generation")
				o.DesiredRevision = revision - rapid.Int64Range(0, 1).Draw(t, "behind")
				o.BucketsMade = rapid.SliceOfN(rapid.Just("b"), 0, 1).Draw(t, "made")
			})
	}
	return s
}
