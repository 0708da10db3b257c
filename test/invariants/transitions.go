package invariants

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/oscarfed/oscarfed/store/record"
)

// Transition is one edge of a state machine. The state "" is that of a record that is not there.
type Transition struct {
	Of   Machine `json:"of"`
	From string  `json:"from"`
	To   string  `json:"to"`
}

func (t Transition) String() string { return fmt.Sprintf("%s: %q to %q", t.Of, t.From, t.To) }

// Machine names a state machine.
type Machine string

// The state machines whose edges are counted.
const (
	// MachineFederation is the phase of a federation.
	MachineFederation Machine = "federation"
	// MachineReplica is the intent of a replica's desired record.
	MachineReplica Machine = "replica"
	// MachineReport is what is reported of a replica: from an intent to a phase.
	MachineReport Machine = "report of a replica"
	// MachineJob is the state of a job, and MachineAttempt that of the report on an attempt.
	MachineJob     Machine = "job"
	MachineAttempt Machine = "attempt of a job"
)

// Transitions are all edges that the rules allow, but for those from a state to itself.
func Transitions() []Transition {
	var out []Transition
	put := func(of Machine, from, to string) {
		if from != to {
			out = append(out, Transition{of, from, to})
		}
	}
	for _, from := range []record.Phase{
		"", record.PhasePreparing, record.PhaseApplying, record.PhaseReady, record.PhaseRollingBack, record.PhaseAborted,
		record.PhaseRolledBack, record.PhaseDeleting,
	} {
		for _, to := range follows(from) {
			put(MachineFederation, string(from), string(to))
		}
	}
	intents := []record.Intent{record.IntentPrepare, record.IntentApply, record.IntentDelete}
	for from, all := range map[record.Intent][]record.Intent{
		"": intents, record.IntentPrepare: {"", record.IntentApply}, record.IntentApply: {record.IntentDelete}, record.IntentDelete: {""},
	} {
		for _, to := range all {
			put(MachineReplica, string(from), string(to))
		}
	}
	for _, intent := range intents {
		for _, phase := range []record.Phase{
			record.PhasePending, record.PhasePrepared, record.PhaseRefused, record.PhaseReady, record.PhaseDrifted, record.PhaseApplying,
			record.PhaseDeleted, record.PhaseDeleting, record.PhaseFailed, record.PhaseHeld, record.PhaseWedged,
		} {
			if answers(phase, intent) {
				put(MachineReport, string(intent), string(phase))
			}
		}
	}
	for of, edges := range map[Machine]map[record.JobState][]record.JobState{MachineJob: ways(), MachineAttempt: steps()} {
		for from, all := range edges {
			for _, to := range all {
				put(of, string(from), string(to))
			}
		}
	}
	slices.SortFunc(out, compareTransitions)
	return out
}

func compareTransitions(a, b Transition) int {
	return cmp.Or(cmp.Compare(a.Of, b.Of), cmp.Compare(a.From, b.From), cmp.Compare(a.To, b.To))
}

// Transitions lists the edges that were taken.
func (r *Report) Transitions() []Transition {
	out := make([]Transition, 0, len(r.transitions))
	for t := range r.transitions {
		out = append(out, t)
	}
	slices.SortFunc(out, compareTransitions)
	return out
}

// transitionsStep notes which edges a revision takes.
func transitionsStep(c *checker) {
	for _, ch := range c.changes {
		if of, from, to, ok := transitionOf(c, ch); ok && from != to {
			c.report.transitions[Transition{of, from, to}] = true
		}
	}
}

func transitionOf(c *checker, ch *change) (of Machine, from, to string, ok bool) {
	switch ch.ref.Kind {
	case record.KindFederation:
		phase := func(f *record.Federation) string { return string(f.Phase) }
		return MachineFederation, stateOf(ch.old, phase), stateOf(ch.now, phase), true
	case record.KindDesiredService:
		intent := func(d *record.Desired) string { return string(d.Intent) }
		return MachineReplica, stateOf(ch.old, intent), stateOf(ch.now, intent), true
	case record.KindObservedService:
		d := as[record.Desired](c.before(placeOfRef(ch.ref).desiredKey()))
		if o := as[record.Observed](ch.now); o != nil && d != nil {
			return MachineReport, string(d.Intent), string(o.Phase), true
		}
	case record.KindJob:
		state := func(j *record.Job) string { return string(j.State) }
		return MachineJob, stateOf(ch.old, state), stateOf(ch.now, state), ch.now != nil
	case record.KindJobReport:
		state := func(r *record.JobReport) string { return string(r.State) }
		return MachineAttempt, stateOf(ch.old, state), stateOf(ch.now, state), ch.now != nil
	default:
	}
	return "", "", "", false
}

// stateOf is the state of a record; empty when it is not there.
func stateOf[T any](e *entry, state func(*T) string) string {
	if rec := as[T](e); rec != nil {
		return state(rec)
	}
	return ""
}
