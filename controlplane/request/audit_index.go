package request

import (
	"bytes"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/oscarfed/oscarfed/controlplane/identity"
	"github.com/oscarfed/oscarfed/controlplane/view"
	"github.com/oscarfed/oscarfed/store"
	"github.com/oscarfed/oscarfed/store/record"
)

// auditIndex indexes the audit entries by origin. An origin is the administrator together with
// the control plane itself, an account, or a cluster whose syncer reports.
type auditIndex struct {
	mu  sync.Mutex
	ids map[string][]string // by origin, the oldest first
	of  map[string]string   // the origin of an id
}

func newAuditIndex() *auditIndex {
	return &auditIndex{ids: map[string][]string{}, of: map[string]string{}}
}

// originOf is the origin whose quota an entry counts against.
func originOf(e *record.Audit) string {
	switch {
	case e.Action == record.ActionReadToken:
		return "cluster " + e.ClusterID
	case e.By == "" || e.By == identity.Admin:
		return identity.Admin
	}
	return "account " + e.By
}

// Listed implements store.Tap.
func (x *auditIndex) Listed(kvs []store.KV) {
	x.mu.Lock()
	defer x.mu.Unlock()
	clear(x.ids)
	clear(x.of)
	for _, kv := range kvs {
		x.add(kv)
	}
}

// Changed implements store.Tap.
func (x *auditIndex) Changed(kv store.KV, deleted bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if !deleted {
		x.add(kv)
		return
	}
	id, ok := strings.CutPrefix(kv.Key, record.AuditPrefix)
	origin, known := x.of[id]
	if !ok || !known {
		return
	}
	delete(x.of, id)
	if x.ids[origin] = view.DropID(x.ids[origin], id); len(x.ids[origin]) == 0 {
		delete(x.ids, origin)
	}
}

// add needs mu.
func (x *auditIndex) add(kv store.KV) {
	id, ok := strings.CutPrefix(kv.Key, record.AuditPrefix)
	if !ok {
		return
	}
	e, err := store.Decode[record.Audit](store.KV{Key: kv.Key, Value: bytes.Clone(kv.Value)})
	if err != nil {
		e = &record.Audit{} // it counts for the administrator until it is the oldest
	}
	origin := originOf(e)
	id = strings.Clone(id)
	x.of[id] = origin
	x.ids[origin] = view.AddID(x.ids[origin], id)
}

// surplus lists the entries to delete, so that most are left: the oldest of the origin that has
// the largest number. So one origin cannot displace the entries of another, and may use the
// space that the others do not need. The administrator keeps at least half of the space.
func (x *auditIndex) surplus(most int) []string {
	x.mu.Lock()
	defer x.mu.Unlock()
	over := len(x.of) - most
	if over <= 0 {
		return nil
	}
	left := maps.Clone(x.ids)
	var out []string
	for range over {
		largest := ""
		for origin, ids := range left {
			if origin == identity.Admin && len(left) > 1 && len(ids) <= most/2 {
				continue
			}
			if largest == "" || len(ids) > len(left[largest]) || len(ids) == len(left[largest]) && origin < largest {
				largest = origin
			}
		}
		out = append(out, left[largest][0])
		if left[largest] = left[largest][1:]; len(left[largest]) == 0 {
			delete(left, largest)
		}
	}
	slices.Sort(out)
	return out
}
