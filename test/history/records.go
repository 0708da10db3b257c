package history

import (
	"context"
	"slices"
	"strings"

	"github.com/oscarfed/oscarfed/store/record"
)

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
