package view

import (
	"github.com/oscarfed/oscarfed/store"
	"github.com/oscarfed/oscarfed/store/record"
)

// applyOffer takes over an offer or an answer; false when it is none.
func (v *View) applyOffer(ref record.Ref, kv store.KV, exists bool) bool {
	switch ref.Kind {
	case record.KindOffer:
		set(v, v.node(ref.Cluster).Offers, ref.Name, kv, exists)
		mark(v.Jobs.Offered, ref.Name, ref.Cluster, exists)
	case record.KindOfferAnswer:
		set(v, v.node(ref.Cluster).Answers, ref.Name, kv, exists)
	default:
		return false
	}
	v.news.Jobs[ref.Name], v.news.Capacity = true, true
	return true
}
