package decide

import (
	"fmt"
	"slices"
	"time"

	"github.com/oscarfed/oscarfed/controlplane/view"
	"github.com/oscarfed/oscarfed/store/record"
)

// The federations of a batch are created all or none. They are accepted, applied, made ready,
// refused and rolled back together, each time in one transaction that compares the records of all
// of them. Each ends its rollback for itself, since a cluster may hold that up. A ready federation
// has nothing more to do with its batch.

// Batch gives the next steps of the federations of a batch, one for each of sits; most are empty
// while it waits. own is the one that is looked at now. Of a federation that is alone it is Decide.
func Batch(sits []view.Situation, own int, l Limits) []Decision {
	out := make([]Decision, len(sits))
	if len(sits) == 1 || sits[own].Fed.Phase == record.PhaseRollingBack {
		out[own] = lastAnswers(sits, own, Decide(sits[own], l))
		return out
	}
	for i, s := range sits {
		out[i] = Decide(s, l)
	}
	if i := slices.IndexFunc(out, ends); i >= 0 {
		return endWith(sits, out, i)
	}
	if out[0].Step != "" && !slices.ContainsFunc(out, func(d Decision) bool { return d.Step != out[0].Step }) {
		return out
	}
	waits := make([]Decision, len(sits))
	waits[own].Again = soonest(out)
	return waits
}

// EndBatch ends the creation of all federations of a batch, because one of them is to be deleted.
// end is the decision about that one.
func EndBatch(sits []view.Situation, own int, end Decision) []Decision {
	out := make([]Decision, len(sits))
	out[own] = end
	if !ends(end) {
		out[own] = lastAnswers(sits, own, end)
		return out
	}
	return endWith(sits, out, own)
}

// ends says whether a decision ends a creation.
func ends(d Decision) bool { return d.Step == StepAbort || d.Step == StepRollBack }

// endWith ends the creations of those that would go on, because that of first ends.
func endWith(sits []view.Situation, out []Decision, first int) []Decision {
	none := func(view.ReplicaState) *record.Failure { return nil }
	cause := out[first].Fed
	for i, s := range sits {
		switch {
		case ends(out[i]):
			continue
		case s.Fed.Phase == record.PhasePreparing:
			out[i] = Abort(s, none)
		case s.Fed.Phase == record.PhaseApplying:
			out[i] = RollBack(s, none)
		default:
			out[i] = Decision{}
			continue
		}
		fed := out[i].Fed
		fed.Code, fed.RetryAfter = cause.Code, cause.RetryAfter
		fed.Detail = fmt.Sprintf("it was to be created together with %q, which failed: %s", cause.GroupID, view.Shorten(cause.Detail, maxTogether))
	}
	ShareSentences(out)
	return out
}

// maxTogether bounds, in bytes, what a federation repeats of why another one failed.
const maxTogether = 500

// ShareSentences bounds what federations that end together say of why, so that one transaction has
// room for all of it.
func ShareSentences(of []Decision) {
	all := 0
	for _, d := range of {
		if d.Fed != nil {
			all += len(d.Fed.Members)
		}
	}
	for _, d := range of {
		if d.Fed != nil {
			view.BoundSentences(d.Fed.Members, all-len(d.Fed.Members))
		}
	}
}

// lastAnswers leaves the outcome of a batch's request to the last federation that has one.
func lastAnswers(sits []view.Situation, own int, d Decision) Decision {
	for i, s := range sits {
		if i != own && s.Fed.Phase.InFlight() {
			d.Request = ""
		}
	}
	return d
}

// soonest is the first time at which the clock alone may change one of the decisions.
func soonest(of []Decision) time.Time {
	var out time.Time
	for _, d := range of {
		if !d.Again.IsZero() && (out.IsZero() || d.Again.Before(out)) {
			out = d.Again
		}
	}
	return out
}
