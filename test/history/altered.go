package history

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/oscarfed/oscarfed/store"
	"github.com/oscarfed/oscarfed/store/record"
)

// asked is what of a definition shows whether somebody has changed it.
type asked struct {
	Image  string `json:"image"`
	Script string `json:"script"`
}

// altered says which services are not as they are desired: somebody has changed them, and
// nothing has repaired that.
func (p *player) altered(ctx context.Context) (open []string) {
	if p.plan.Restores() {
		return nil // what is ahead of a restored store is held
	}
	items, _, err := p.w.Store.List(ctx, record.Root)
	if err != nil {
		return []string{err.Error()}
	}
	specs := map[string]store.KV{}
	for _, kv := range items {
		if record.ParseKey(kv.Key).Kind == record.KindSpec {
			specs[kv.Key] = kv
		}
	}
	for _, kv := range items {
		ref := record.ParseKey(kv.Key)
		if ref.Kind != record.KindDesiredService {
			continue
		}
		d, err := store.Decode[record.Desired](kv)
		if err != nil || d.Intent != record.IntentApply {
			continue // unsettled tells
		}
		spec, err := store.Decode[record.Spec](specs[record.SpecKey(ref.Cluster, d.Spec)])
		if err != nil {
			open = append(open, fmt.Sprintf("the spec of %s/%s: %v", ref.Cluster, ref.Name, err))
			continue
		}
		view, _ := p.w.Cluster(ref.Cluster).Sim.Service(ref.Name) // different tells that there is none
		var want, have asked
		if json.Unmarshal(spec.Service, &want) == nil && json.Unmarshal(view.JSON, &have) == nil && want != have {
			open = append(open, fmt.Sprintf("%s/%s is to be %+v, and is %+v", ref.Cluster, ref.Name, want, have))
		}
		if wrong := runs(d.RunState, view.Stopped); wrong != "" {
			open = append(open, fmt.Sprintf("%s/%s %s", ref.Cluster, ref.Name, wrong))
		}
	}
	return open
}
