package history

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/oscarfed/oscarfed/controlplane"
	"github.com/oscarfed/oscarfed/store/record"
)

const (
	// shortKeep is how long a control plane keeps what it keeps for days else, when it forgets. Requests
	// it keeps for longer than a client goes on to repeat one.
	shortKeep        = 10 * time.Minute
	shortKeepRequest = 20 * time.Minute
	// keepRequest is how long it keeps requests else.
	keepRequest = 24 * time.Hour
)

// forgets lets a control plane forget soon, so that a history sees it.
func (s Shape) forgets(c *controlplane.Config) {
	if s.Forgets {
		c.KeepResult, c.KeepJobs, c.KeepDeleted, c.KeepRequest = shortKeep, shortKeep, shortKeep, shortKeepRequest
	}
}

// keepsRequest is how long a control plane knows a request again by its idempotency key.
func (s Shape) keepsRequest() time.Duration {
	if s.Forgets {
		return shortKeepRequest
	}
	return keepRequest
}

// outlastsKeys says whether a control plane may be frozen for longer than idempotency keys are kept: when it goes on it
// takes what it was sent before, and what was sent again elsewhere is forgotten.
func (p Plan) outlastsKeys() bool {
	return slices.ContainsFunc(p.Steps, func(s Step) bool {
		f := s.Fault
		return f != nil && f.Kind == faultFreeze && strings.HasPrefix(f.On, "control-plane-") && f.For > p.Shape.keepsRequest()
	})
}

// kept says which records a control plane that forgets has yet, although what they are about is over.
func (p *player) kept(ctx context.Context) (open []string) {
	items, err := p.w.Store.ListKeys(ctx, record.Root)
	if err != nil {
		return []string{err.Error()}
	}
	for _, kv := range items {
		switch record.ParseKey(kv.Key).Kind {
		case record.KindFederation, record.KindHistory, record.KindSecrets, record.KindPart, record.KindRequest, record.KindDeleted, record.KindJob, record.KindDecision:
			open = append(open, strings.TrimPrefix(kv.Key, record.Root)+" is kept")
		default:
		}
	}
	return open
}

// stay are the kinds of records that may be there when every service is deleted: what is known of the
// installation, and what is kept for a time (docs/architecture.md, "Who writes which key").
func stay() []record.Kind {
	return []record.Kind{
		record.KindMeta, record.KindElapsed, record.KindFence, record.KindInstance,
		record.KindCluster, record.KindDesiredCluster, record.KindObservedCluster, record.KindSession, record.KindCapacity,
		record.KindOwner, record.KindRequest, record.KindAudit, record.KindDeleted, record.KindJob, record.KindDecision,
	}
}

// left says which other records there are. Results of creations, with their history, are kept for a
// day.
func (p *player) left(ctx context.Context) (open []string) {
	items, err := p.w.Store.ListKeys(ctx, record.Root)
	if err != nil {
		return []string{err.Error()}
	}
	results := map[string]bool{}
	for _, kv := range items {
		if ref := record.ParseKey(kv.Key); ref.Kind == record.KindFederation {
			results[ref.Name] = true // unsettled has seen that it is one
		}
	}
	for _, kv := range items {
		ref := record.ParseKey(kv.Key)
		ofResult := slices.Contains([]record.Kind{record.KindFederation, record.KindHistory, record.KindSecrets, record.KindPart}, ref.Kind) && results[ref.Name]
		if ref.Kind == record.KindEvent {
			if j := p.w.Job(ref.Name); j != nil && j.State == record.JobParked {
				continue // a person decides about it
			}
		}
		if !ofResult && !slices.Contains(stay(), ref.Kind) {
			open = append(open, strings.TrimPrefix(kv.Key, record.Root)+" is left")
		}
	}
	return open
}
