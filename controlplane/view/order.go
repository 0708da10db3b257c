package view

import (
	"cmp"
	"iter"

	"github.com/google/btree"

	"github.com/oscarfed/oscarfed/store/record"
)

// Order is a sorted set that others read and only this package writes.
type Order[K any] struct {
	tree    *btree.BTreeG[K]
	compare func(a, b K) int
}

func newOrder[K any](compare func(a, b K) int) Order[K] {
	const degree = 32
	return Order[K]{btree.NewG(degree, func(a, b K) bool { return compare(a, b) < 0 }), compare}
}

// Len counts the keys.
func (o Order[K]) Len() int { return o.tree.Len() }

// After are the keys behind a key, in their order. The zero key is before all others.
func (o Order[K]) After(key K) iter.Seq[K] {
	return func(yield func(K) bool) {
		o.tree.AscendGreaterOrEqual(key, func(k K) bool {
			return o.compare(k, key) == 0 || yield(k)
		})
	}
}

// FederationPos is the position of a federation in the list of all: by owner and group_id.
type FederationPos struct{ Owner, GroupID, UID string }

func (p FederationPos) compare(q FederationPos) int {
	return cmp.Or(cmp.Compare(p.Owner, q.Owner), cmp.Compare(p.GroupID, q.GroupID), cmp.Compare(p.UID, q.UID))
}

// ReplicaPos is the position of a replica in the list of all: by service and cluster. UID is that
// of its federation, of which several may have had one location, one after the other.
type ReplicaPos struct{ Service, Cluster, UID string }

func (p ReplicaPos) compare(q ReplicaPos) int {
	return cmp.Or(cmp.Compare(p.Service, q.Service), cmp.Compare(p.Cluster, q.Cluster), cmp.Compare(p.UID, q.UID))
}

// orders are the federations, replicas and clusters in the order in which lists have them.
type orders struct {
	federations Order[FederationPos]
	replicas    Order[ReplicaPos]
	clusters    Order[string]
}

func newOrders() orders {
	return orders{newOrder(FederationPos.compare), newOrder(ReplicaPos.compare), newOrder(cmp.Compare[string])}
}

func posOf(f *record.Federation) FederationPos { return FederationPos{f.Owner, f.GroupID, f.UID} }

// replicasOf are the positions of a federation's replicas.
func replicasOf(f *record.Federation) iter.Seq[ReplicaPos] {
	return func(yield func(ReplicaPos) bool) {
		for _, m := range f.Members {
			if m.Replica() && !yield(ReplicaPos{m.ServiceName, m.ClusterID, f.UID}) {
				return
			}
		}
	}
}

// setFederation moves a federation from where it was to where it is; nil is nowhere.
func (o orders) setFederation(old, now *record.Federation) {
	if old != nil {
		o.federations.tree.Delete(posOf(old))
		for at := range replicasOf(old) {
			o.replicas.tree.Delete(at)
		}
	}
	if now != nil {
		o.federations.tree.ReplaceOrInsert(posOf(now))
		for at := range replicasOf(now) {
			o.replicas.tree.ReplaceOrInsert(at)
		}
	}
}

func (o orders) setCluster(id string, present bool) {
	if present {
		o.clusters.tree.ReplaceOrInsert(id)
		return
	}
	o.clusters.tree.Delete(id)
}

// FederationsOf are the positions of an owner's federations.
func (v *View) FederationsOf(owner string) iter.Seq[FederationPos] {
	return func(yield func(FederationPos) bool) {
		for at := range v.orders.federations.After(FederationPos{Owner: owner}) {
			if at.Owner != owner || !yield(at) {
				return
			}
		}
	}
}
