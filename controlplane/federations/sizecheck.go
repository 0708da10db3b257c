package federations

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/oscarfed/oscarfed/api/oscar"
	"github.com/oscarfed/oscarfed/controlplane/decide"
	"github.com/oscarfed/oscarfed/controlplane/fault"
	"github.com/oscarfed/oscarfed/controlplane/gate"
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

// checkCreate tries all courses of a creation, and then the changes of the ready federation. Most creations are so small
// that no try is needed.
func (l sizeCheck) checkCreate() error {
	if bound, err := l.bound(); err != nil || bound <= store.MaxBytes {
		return err
	}
	return errors.Join(check(l.courses()), l.checkChange())
}

// stepEach is more than a step writes for each replica besides its desired record and its part of the federation's: keys,
// the words of its report, and what stays of it when it is deleted.
const stepEach = 2 << 10

// bound is more bytes than any later transaction of a creation can have. A step writes the federation, with its answer
// and its proposal at most three times, and the desired records or what stays of deleted ones.
func (l sizeCheck) bound() (int, error) {
	fed, err := encodedSize(l.Fed)
	desired, replicas := 0, 0
	for _, r := range l.Replicas {
		size, failed := encodedSize(r.Desired)
		err = cmp.Or(err, failed)
		desired += size
		replicas += stepEach + laterBytesEach + 4*(len(r.At.ClusterID)+len(r.At.ServiceName))
	}
	for _, m := range l.definition {
		size, failed := encodedSize(m.Rec)
		err = cmp.Or(err, failed)
		desired += size + stepEach
	}
	return laterBytes + 3*fed + max(desired, decide.MaxDeletedBytes) + replicas + 2*view.SharedSentences, err
}

func encodedSize(rec any) (int, error) {
	data, err := record.Encode(rec)
	return len(data), err
}

// courses are all courses of a creation.
func (l sizeCheck) courses() []laterStep {
	return append(l.creation(), laterStep{"rollback's outcome", alone(l.Situation, l.after(l.rollBack()).outcome()), nil})
}

// creation are the steps of a creation that a batch takes together.
func (l sizeCheck) creation() []laterStep {
	refused := decide.Abort(l.reported(record.PhaseRefused).Situation, reportedFailure)
	ready := decide.Decision{Fed: new(l.ready().Fed)}
	return []laterStep{
		{"refusal", alone(l.Situation, refused), nil},
		{"vote", alone(l.Situation, decide.Commit(l.Situation, l.limits, 0)), nil},
		{"outcome", alone(l.Situation, ready), nil},
		{"rollback", alone(l.Situation, l.rollBack()), nil},
	}
}

// rollBack is the rollback after every replica has failed.
func (l sizeCheck) rollBack() decide.Decision {
	return decide.RollBack(l.reported(record.PhaseFailed).Situation, reportedFailure)
}

func reportedFailure(r view.ReplicaState) *record.Failure { return r.Failure("") }

// checkBatch tries the steps that the federations of a batch take together.
func checkBatch(of []*Draft) error {
	var together []laterStep
	for _, d := range of {
		d.size.Fed.Batch = d.Fed.Batch
		for i, one := range d.size.creation() {
			if i == len(together) {
				together = append(together, laterStep{name: one.name})
			}
			together[i].steps = append(together[i].steps, one.steps...)
		}
	}
	for _, later := range together {
		var decisions []decide.Decision
		for _, s := range later.steps {
			decisions = append(decisions, s.next)
		}
		decide.ShareSentences(decisions)
	}
	return check(together)
}

func (l sizeCheck) checkChange() error { return check(l.changes()) }

// changes are the changes of the ready federation.
func (l sizeCheck) changes() []laterStep {
	stands := l.ready()
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
	return []laterStep{
		{"change", alone(stands.Situation, decide.ApplyChange(stands.Situation, decide.NewProposal(next, specs))), l.definition},
		{"addition of a member", alone(stands.Situation, decide.Decision{Fed: &proposed.Fed}), l.definition},
		{"refusal of a member", alone(proposed.Situation, refused), nil},
		{"deletion", alone(stands.Situation, decide.Deletion(stands.Situation, decide.DeletionOrders{RequestID: next.RequestID, Data: record.DataDelete, Jobs: record.JobsCancel})), nil},
	}
}

// ready is the federation once its creation is done.
func (l sizeCheck) ready() sizeCheck {
	l.Fed.Phase, l.Fed.Deadline = record.PhaseReady, nil
	return l
}

// reported is the federation when every syncer has reported as much as is kept of a report.
func (l sizeCheck) reported(phase record.Phase) sizeCheck {
	report := record.Observed{
		Phase: phase, Reason: record.Reason(strings.Repeat("R", view.MaxReportWord)), Operation: strings.Repeat("o", view.MaxReportWord),
		Status: 599, Message: strings.Repeat("x", view.MaxReportMessage),
	}
	l.Replicas = slices.Clone(l.Replicas)
	for i := range l.Replicas {
		r := &l.Replicas[i]
		of := report
		of.UID, of.ObservedGeneration = r.Desired.UID, r.Desired.Generation
		r.Observed = &of
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
	name  string
	steps steps
	more  []gate.Staged
}

// alone is the step of one federation.
func alone(s view.Situation, d decide.Decision) steps { return steps{{sit: s, next: d}} }

// check returns an error for the first step that would be too large.
func check(later []laterStep) error {
	for _, l := range later {
		err := store.Check(l.put)
		if errors.Is(err, store.ErrTooLarge) {
			return &fault.Error{Code: fault.CodeTooLarge, Cause: err, Message: fmt.Sprintf(
				"nothing was changed: the %s of this federation would be %v; "+
					"make its script, annotations, allowed_users or urls shorter, or name fewer members", l.name, err)}
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// put puts the step into a transaction with what it compares, and gives the space for what is not known yet.
func (l laterStep) put(tx *store.Txn) (space int, err error) {
	space = laterBytes
	first, hash := l.steps[0].sit.Fed, strings.Repeat("0", 64)
	for _, key := range []string{record.MetaKey, record.RequestKey(hash)} {
		tx.ExpectRevision(key, 1)
	}
	for _, s := range l.steps {
		tx.ExpectRevision(record.FederationKey(s.sit.Fed.UID), 1)
		if err := putDecision(s.next, s.sit, tx); err != nil {
			return 0, err
		}
		space += laterBytesEach * len(s.sit.Replicas)
		if s.next.Step == decide.StepRolledBack {
			space += decide.MaxDeletedBytes
		}
	}
	for _, m := range l.more {
		tx.Put(m.Key, m.Rec)
	}
	_, answer := l.steps.answer()
	tx.Put(record.RequestKey(hash), record.Request{
		V: record.Version, BodyHash: hash, UID: first.UID, RequestID: first.RequestID, Keyed: true, Answer: answer,
	})
	return space, nil
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
