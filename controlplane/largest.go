package controlplane

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/oscarfed/oscarfed/api/oscar"
	"github.com/oscarfed/oscarfed/store"
	"github.com/oscarfed/oscarfed/store/record"
)

const (
	// laterBytes is room in a transaction for what is not known yet: longer request ids, an
	// audit entry, members that leave. laterBytesEach is for each replica: the epochs that
	// its record has lived through.
	laterBytes, laterBytesEach = 64 << 10, 1200
	// maxLives is how many replicas a federation may have together with those that leave
	// and whose clusters have not acknowledged it: all of them go in one transaction.
	maxLives = 2 * oscar.MaxReplicas
)

// largest is a federation as it is about to be, for which every later transaction is
// tried in memory: what is accepted must be able to end, whatever its syncers say.
type largest struct {
	situation
	limits limits
	// submitted are the records of its definition, which the next generation writes again.
	submitted []staged
}

// largestOf takes the federation and everything that is desired for it.
func (c *ControlPlane) largestOf(fed record.Federation, desired []placed, submitted []staged) largest {
	out := largest{limits: c.decider.limits, submitted: submitted}
	out.fed, out.epoch, out.now = fed, fed.Epoch, c.cfg.Now()
	for i, m := range fed.Members {
		at := slices.IndexFunc(desired, func(p placed) bool { return p.rec.UID == m.UID })
		if m.Replica() && at >= 0 {
			out.replicas = append(out.replicas, replicaState{at: m, member: i, desired: desired[at].rec, alive: true})
		}
	}
	return out
}

// creates tries the ways that a creation may take, and changes those of a federation that
// stands.
func (l largest) creates() error {
	prepared := l.said(record.PhaseRefused)
	applied := l.said(record.PhaseFailed)
	back := rollBack(applied.situation, func(r replicaState) *record.Failure { return r.failure("") })
	ready := decision{fed: new(l.as(record.PhaseReady).fed)}
	steps := []laterStep{
		{"refusal", l.situation, abort(prepared.situation, func(r replicaState) *record.Failure { return r.failure("") }), nil},
		{"vote", l.situation, commit(l.situation, l.limits, 0), nil},
		{"outcome", l.situation, ready, nil},
		{"rollback", l.situation, back, nil},
		{"rollback's outcome", l.situation, l.after(back).outcome(), nil},
	}
	return errors.Join(check(steps), l.changes())
}

func (l largest) changes() error {
	stands := l.as(record.PhaseReady)
	next := stands.fed
	next.Generation++
	specs := map[string]string{}
	for _, r := range stands.replicas {
		specs[r.at.UID] = record.ChangedSpecName(r.at.ServiceName, r.at.UID, next.Generation, newUID())
	}
	proposed := stands
	proposed.fed.Change = &record.Change{
		RequestID: next.RequestID, By: next.By, Topology: next.Topology, Delegation: next.Delegation, Drift: next.Drift,
		Visibility: next.Visibility, AllowedUsers: next.AllowedUsers, Members: next.Members, Specs: specs,
		Request: strings.Repeat("0", 64),
	}
	proposed.adding = proposed.said(record.PhaseRefused).replicas
	refused := refuseChange(proposed.situation)
	refused.remove = nil
	return check([]laterStep{
		{"change", stands.situation, applyChange(stands.situation, newProposal(next, specs)), l.submitted},
		{"addition of a member", stands.situation, decision{fed: &proposed.fed}, l.submitted},
		{"refusal of a member", proposed.situation, refused, nil},
		{"deletion", stands.situation, deletion(stands.situation, DeleteOptions{RequestID: next.RequestID, Data: "delete", Jobs: "cancel"}), nil},
	})
}

// as is the federation in another phase.
func (l largest) as(phase record.Phase) largest {
	l.fed.Phase, l.fed.Deadline = phase, nil
	return l
}

// said is the federation when every syncer has reported as much as is kept of a report.
func (l largest) said(phase record.Phase) largest {
	l.replicas = slices.Clone(l.replicas)
	for i := range l.replicas {
		r := &l.replicas[i]
		r.observed = &record.Observed{
			Phase: phase, UID: r.desired.UID, ObservedGeneration: r.desired.Generation,
			Reason: record.Reason(strings.Repeat("R", maxReportWord)), Operation: strings.Repeat("o", maxReportWord),
			Status: 599, Message: strings.Repeat("x", maxReportMessage),
		}
	}
	return l
}

// after is the federation once a decision is made.
func (l largest) after(d decision) largest {
	l.fed = *d.fed
	l.replicas = slices.Clone(l.replicas)
	for i := range l.replicas {
		l.replicas[i].desired = d.put[i].rec
	}
	return l
}

// outcome is the end of a rollback of which every part failed, which is longest.
func (l largest) outcome() decision {
	return decideRollingBack(l.said(record.PhaseFailed).situation)
}

// laterStep is a transaction that may come.
type laterStep struct {
	name string
	s    situation
	d    decision
	more []staged
}

// check says which of the steps would be too large.
func check(steps []laterStep) error {
	for _, step := range steps {
		err := store.Check(func(tx *store.Txn) error {
			step.d.request = "" // it is written below
			if err := step.d.write(step.s, store.View{}, tx); err != nil {
				return err
			}
			for _, m := range step.more {
				tx.Put(m.key, m.rec)
			}
			hash := strings.Repeat("0", 64)
			tx.Put(record.RequestKey(hash), record.Request{
				V: record.Version, BodyHash: hash, UID: step.s.fed.UID, RequestID: step.s.fed.RequestID, Keyed: true, Answer: answerOf(step.d),
			})
			later := laterBytes + laterBytesEach*len(step.s.replicas)
			if step.d.name == "rolled_back" {
				later += maxDeletedBytes
			}
			tx.PutBytes("later", make([]byte, later))
			return nil
		})
		if errors.Is(err, store.ErrTooLarge) {
			return &Error{Code: CodeTooLarge, Cause: err, Message: fmt.Sprintf(
				"nothing was changed: the %s of this federation would be %v; "+
					"make its script, annotations, allowed_users or urls shorter, or name fewer members", step.name, err)}
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// hasRoomFor refuses to add members while too many that were removed have not gone.
func hasRoomFor(f *record.Federation, next []record.Member) error {
	replicas := 0
	for _, m := range next {
		if m.Replica() {
			replicas++
		}
	}
	for _, m := range f.Members {
		if m.Replica() && memberOf(next, m.UID) < 0 {
			replicas++
		}
	}
	if leaving := len(f.Leaving); leaving > 0 && leaving+replicas > maxLives {
		return &Error{Code: CodeConflict, Message: fmt.Sprintf(
			"nothing was changed: %d removed members of federation %q wait for their clusters to acknowledge that, and with its members there may be %d; "+
				"start the syncers of these clusters, or remove the clusters (oscarfed cluster remove --force)", leaving, f.GroupID, maxLives)}
	}
	return nil
}
