package jobs

import (
	"slices"

	"github.com/oscarfed/oscarfed/internal/share"
)

// fairQueue are attempts that wait for a slot, by tenants: the owner of a federation's services is
// the account. Those of one tenant are in the order in which they came.
type fairQueue struct {
	order []share.Tenant
	of    map[share.Tenant][]string
}

// add puts an attempt behind the others of its tenant.
func (q *fairQueue) add(t share.Tenant, key string) {
	if q.of == nil {
		q.of = map[share.Tenant][]string{}
	}
	if len(q.of[t]) == 0 {
		q.order = append(q.order, t)
	}
	q.of[t] = append(q.of[t], key)
}

// next takes the first attempt of the tenant with the smallest share of what is held, of those that
// may have a slot; of several the one that has waited longest. It is false when there is none.
func (q *fairQueue) next(held *share.Held, may func(share.Tenant) bool) (key string, ok bool) {
	next := -1
	for i, t := range q.order {
		if may(t) && (next < 0 || held.Compare(t, q.order[next]) < 0) {
			next = i
		}
	}
	if next < 0 {
		return "", false
	}
	t := q.order[next]
	q.order = slices.Delete(q.order, next, next+1)
	keys := q.of[t]
	if len(keys) > 1 {
		q.of[t], q.order = keys[1:], append(q.order, t)
	} else {
		delete(q.of, t)
	}
	return keys[0], true
}
