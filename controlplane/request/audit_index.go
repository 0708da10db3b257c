package request

import (
	"bytes"
	"maps"
	"slices"
	"strings"
	"sync"
	"unique"

	"github.com/oscarfed/oscarfed/controlplane/identity"
	"github.com/oscarfed/oscarfed/store"
	"github.com/oscarfed/oscarfed/store/record"
)

// auditIndex indexes the audit entries by origin and by whom they concern. An origin is the
// administrator together with the control plane itself, an account, or a cluster whose syncer
// reports. An entry concerns the user who did it, and the owner of what it is about.
type auditIndex struct {
	mu       sync.Mutex
	ids      map[string][]string // by origin, the oldest first
	concerns map[string][]string // by subject of a user, the oldest first
	of       map[string]indexed  // by id
}

// indexed says where an id is in the index: by and owner are empty for none, and never equal.
type indexed struct{ origin, by, owner string }

func newAuditIndex() *auditIndex {
	return &auditIndex{ids: map[string][]string{}, concerns: map[string][]string{}, of: map[string]indexed{}}
}

func indexedAs(e *record.Audit) indexed {
	user := func(subject string) string {
		if subject == identity.Admin {
			return ""
		}
		return unique.Make(subject).Value()
	}
	at := indexed{origin: originOf(e), by: user(e.By), owner: user(e.Owner)}
	if at.owner == at.by {
		at.owner = ""
	}
	return at
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
	clear(x.concerns)
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
	at, known := x.of[id]
	if !ok || !known {
		return
	}
	delete(x.of, id)
	drop := func(from map[string][]string, key string) {
		if from[key] = dropID(from[key], id); len(from[key]) == 0 {
			delete(from, key)
		}
	}
	drop(x.ids, at.origin)
	drop(x.concerns, at.by)
	drop(x.concerns, at.owner)
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
	at := indexedAs(e)
	id = strings.Clone(id)
	x.of[id] = at
	x.ids[at.origin] = addID(x.ids[at.origin], id)
	for _, subject := range []string{at.by, at.owner} {
		if subject != "" {
			x.concerns[subject] = addID(x.concerns[subject], id)
		}
	}
}

// concerning lists the keys of the newest entries that concern a user, the newest first and so many
// at most; of those older than before when that is not empty.
func (x *auditIndex) concerning(subject, before string, most int) []string {
	x.mu.Lock()
	defer x.mu.Unlock()
	ids := x.concerns[subject]
	if before != "" {
		n, _ := slices.BinarySearch(ids, before)
		ids = ids[:n]
	}
	var keys []string
	for _, id := range slices.Backward(ids[max(0, len(ids)-most):]) {
		keys = append(keys, record.AuditKey(id))
	}
	return keys
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

// addID adds an id to a sorted list. Ids are in the order of time, so most are added at the end
// and removed at the beginning.
func addID(ids []string, id string) []string {
	i, there := slices.BinarySearch(ids, id)
	if there {
		return ids
	}
	return slices.Insert(ids, i, id)
}

// dropID takes an id out of a sorted list.
func dropID(ids []string, id string) []string {
	i, there := slices.BinarySearch(ids, id)
	switch {
	case !there:
		return ids
	case i == 0:
		return ids[1:]
	}
	return slices.Delete(ids, i, i+1)
}
