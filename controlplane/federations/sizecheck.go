package federations

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/oscarfed/oscarfed/api/oscar"
	"github.com/oscarfed/oscarfed/controlplane/decide"
	"github.com/oscarfed/oscarfed/controlplane/fault"
	"github.com/oscarfed/oscarfed/controlplane/gate"
	"github.com/oscarfed/oscarfed/controlplane/request"
	"github.com/oscarfed/oscarfed/controlplane/view"
	"github.com/oscarfed/oscarfed/store"
	"github.com/oscarfed/oscarfed/store/record"
)

const (
	// laterBytes is space in a transaction for data that is not known yet: longer request ids,
	// an audit entry, members that leave. laterBytesEach is the same for each replica: the
	// epochs that its record has lived through.
	laterBytes, laterBytesEach = 64 << 10, 1200
	// maxLives bounds the replicas of a federation together with those that leave and whose
	// clusters have not acknowledged it: all of them are written in one transaction.
	maxLives = 2 * oscar.MaxReplicas
)

// sizeCheck is a federation that is about to be accepted. It tries every later transaction in
// memory: an accepted federation must be able to reach its end, whatever its syncers report.
type sizeCheck struct {
	view.Situation
	limits decide.Limits
	// definition has the records of its definition, which the next generation writes again.
	definition []gate.Staged
}

// sizeCheckOf makes the check of a federation and its desired records.
func (c *Controller) sizeCheckOf(fed record.Federation, desired []gate.Placed, definition []gate.Staged) sizeCheck {
	out := sizeCheck{limits: c.limits, definition: definition}
	out.Fed, out.Epoch, out.Now = fed, fed.Epoch, c.cfg.Now()
	for i, m := range fed.Members {
		at := slices.IndexFunc(desired, func(p gate.Placed) bool { return p.Rec.UID == m.UID })
		if m.Replica() && at >= 0 {
			out.Replicas = append(out.Replicas, view.ReplicaState{At: m, Member: i, Desired: desired[at].Rec, Alive: true})
		}
	}
	return out
}

// checkCreate tries all courses of a creation, and then the changes of the ready federation.
func (l sizeCheck) checkCreate() error {
	prepared := l.reported(record.PhaseRefused)
	applied := l.reported(record.PhaseFailed)
	back := decide.RollBack(applied.Situation, func(r view.ReplicaState) *record.Failure { return r.Failure("") })
	ready := decide.Decision{Fed: new(l.inPhase(record.PhaseReady).Fed)}
	steps := []laterStep{
		{"refusal", l.Situation, decide.Abort(prepared.Situation, func(r view.ReplicaState) *record.Failure { return r.Failure("") }), nil},
		{"vote", l.Situation, decide.Commit(l.Situation, l.limits, 0), nil},
		{"outcome", l.Situation, ready, nil},
		{"rollback", l.Situation, back, nil},
		{"rollback's outcome", l.Situation, l.after(back).outcome(), nil},
	}
	return errors.Join(check(steps), l.checkChange())
}

func (l sizeCheck) checkChange() error {
	stands := l.inPhase(record.PhaseReady)
	next := stands.Fed
	next.Generation++
	specs := map[string]string{}
	for _, r := range stands.Replicas {
		specs[r.At.UID] = record.ChangedSpecName(r.At.ServiceName, r.At.UID, next.Generation, record.NewUID())
	}
	proposed := stands
	proposed.Fed.Change = &record.Change{
		RequestID: next.RequestID, By: next.By, Topology: next.Topology, Delegation: next.Delegation, Drift: next.Drift,
		Visibility: next.Visibility, AllowedUsers: next.AllowedUsers, Members: next.Members, Specs: specs,
		Request: strings.Repeat("0", 64),
	}
	proposed.Adding = proposed.reported(record.PhaseRefused).Replicas
	refused := decide.RefuseChange(proposed.Situation)
	refused.Remove = nil
	return check([]laterStep{
		{"change", stands.Situation, decide.ApplyChange(stands.Situation, decide.NewProposal(next, specs)), l.definition},
		{"addition of a member", stands.Situation, decide.Decision{Fed: &proposed.Fed}, l.definition},
		{"refusal of a member", proposed.Situation, refused, nil},
		{"deletion", stands.Situation, decide.Deletion(stands.Situation, decide.DeletionOrders{RequestID: next.RequestID, Data: "delete", Jobs: "cancel"}), nil},
	})
}

// inPhase is the federation in another phase.
func (l sizeCheck) inPhase(phase record.Phase) sizeCheck {
	l.Fed.Phase, l.Fed.Deadline = phase, nil
	return l
}

// reported is the federation when every syncer has reported as much as is kept of a report.
func (l sizeCheck) reported(phase record.Phase) sizeCheck {
	l.Replicas = slices.Clone(l.Replicas)
	for i := range l.Replicas {
		r := &l.Replicas[i]
		r.Observed = &record.Observed{
			Phase: phase, UID: r.Desired.UID, ObservedGeneration: r.Desired.Generation,
			Reason: record.Reason(strings.Repeat("R", view.MaxReportWord)), Operation: strings.Repeat("o", view.MaxReportWord),
			Status: 599, Message: strings.Repeat("x", view.MaxReportMessage),
		}
	}
	return l
}

// after is the federation once a decision is made.
func (l sizeCheck) after(d decide.Decision) sizeCheck {
	l.Fed = *d.Fed
	l.Replicas = slices.Clone(l.Replicas)
	for i := range l.Replicas {
		l.Replicas[i].Desired = d.Put[i].Rec
	}
	return l
}

// outcome is the end of a rollback in which every deletion failed: that is the longest one.
func (l sizeCheck) outcome() decide.Decision {
	return decide.RollingBack(l.reported(record.PhaseFailed).Situation)
}

// laterStep is a possible later transaction.
type laterStep struct {
	name string
	s    view.Situation
	d    decide.Decision
	more []gate.Staged
}

// check returns an error for the first step that would be too large.
func check(steps []laterStep) error {
	for _, step := range steps {
		err := store.Check(func(tx *store.Txn) error {
			step.d.Request = "" // it is written below
			if err := putDecision(step.d, step.s, store.View{}, tx); err != nil {
				return err
			}
			for _, m := range step.more {
				tx.Put(m.Key, m.Rec)
			}
			hash := strings.Repeat("0", 64)
			tx.Put(record.RequestKey(hash), record.Request{
				V: record.Version, BodyHash: hash, UID: step.s.Fed.UID, RequestID: step.s.Fed.RequestID, Keyed: true, Answer: request.AnswerOf(step.d),
			})
			later := laterBytes + laterBytesEach*len(step.s.Replicas)
			if step.d.Name == "rolled_back" {
				later += decide.MaxDeletedBytes
			}
			tx.PutBytes("later", make([]byte, later))
			return nil
		})
		if errors.Is(err, store.ErrTooLarge) {
			return &fault.Error{Code: fault.CodeTooLarge, Cause: err, Message: fmt.Sprintf(
				"nothing was changed: the %s of this federation would be %v; "+
					"make its script, annotations, allowed_users or urls shorter, or name fewer members", step.name, err)}
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// checkMembersFit refuses to add members while too many removed ones wait for their clusters.
func checkMembersFit(f *record.Federation, next []record.Member) error {
	replicas := 0
	for _, m := range next {
		if m.Replica() {
			replicas++
		}
	}
	for _, m := range f.Members {
		if m.Replica() && view.MemberOf(next, m.UID) < 0 {
			replicas++
		}
	}
	if leaving := len(f.Leaving); leaving > 0 && leaving+replicas > maxLives {
		return &fault.Error{Code: fault.CodeConflict, Message: fmt.Sprintf(
			"nothing was changed: %d removed members of federation %q wait for their clusters to acknowledge that, and with its members there may be %d; "+
				"start the syncers of these clusters, or remove the clusters (oscarfed cluster remove --force)", leaving, f.GroupID, maxLives)}
	}
	return nil
}
