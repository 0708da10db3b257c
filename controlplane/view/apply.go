package view

import (
	"slices"

	"github.com/oscarfed/oscarfed/store"
	"github.com/oscarfed/oscarfed/store/record"
)

func (v *View) apply(key string, kv store.KV, exists bool) {
	federations, clusters := v.news.Federations, v.news.Clusters
	ref := record.ParseKey(key)
	if v.applyJob(ref, kv, exists) {
		return
	}
	switch ref.Kind {
	case record.KindMeta:
		if m, ok := decode[record.Meta](v, kv, exists); ok {
			v.Meta, v.news.Meta = m, m
		}
	case record.KindFence:
		v.Fence = kv.ModRevision
		clusters[""] = true
	case record.KindCluster:
		v.Registrations++
		old := v.Clusters.m[ref.Cluster].Rec
		set(v, v.Clusters.m, ref.Cluster, kv, exists)
		if now := v.Clusters.m[ref.Cluster].Rec; now != nil && (old == nil || old.UID != now.UID || old.Revoked != nil && now.Revoked == nil) {
			v.news.Forgiven = append(v.news.Forgiven, ref.Cluster)
		}
		clusters[ref.Cluster] = true
	case record.KindName:
		delete(v.Names.m, key)
		if n, ok := decode[record.Name](v, kv, exists); ok {
			v.Names.m[key] = n.UID
		}
	case record.KindDeleted:
		if old, ok := v.Deleted.m[ref.Name]; ok {
			mark(v.DeletedOf.m, old.Rec.ClusterID+"/"+old.Rec.ServiceName, ref.Name, false)
		}
		set(v, v.Deleted.m, ref.Name, kv, exists)
		if d, ok := v.Deleted.m[ref.Name]; ok {
			mark(v.DeletedOf.m, d.Rec.ClusterID+"/"+d.Rec.ServiceName, ref.Name, true)
		}
	case record.KindFederation:
		v.applyFederation(ref.Name, kv, exists)
		federations[ref.Name] = true
	case record.KindSession, record.KindObservedCluster, record.KindDesiredCluster:
		n := v.node(ref.Cluster)
		if ref.Kind == record.KindSession && !exists && n.Session.Rec != nil {
			v.news.Ended = append(v.news.Ended, ref.Cluster)
		}
		n.Session = one(v, n.Session, ref.Kind == record.KindSession, kv, exists)
		n.Self = one(v, n.Self, ref.Kind == record.KindObservedCluster, kv, exists)
		if ref.Kind == record.KindDesiredCluster {
			v.Registrations++
		}
		n.DesiredSelf = one(v, n.DesiredSelf, ref.Kind == record.KindDesiredCluster, kv, exists)
		clusters[ref.Cluster] = true
	case record.KindDesiredService:
		n := v.node(ref.Cluster)
		if old, ok := n.Desired.m[ref.Name]; ok {
			federations[old.Rec.Federation] = true
			delete(v.Marked.m, old.Rec.Mark)
		}
		set(v, n.Desired.m, ref.Name, kv, exists)
		if now, ok := n.Desired.m[ref.Name]; ok {
			federations[now.Rec.Federation] = true
			v.Marked.m[now.Rec.Mark] = Location{ref.Cluster, ref.Name}
		}
	case record.KindReading:
		if exists {
			v.news.Readings = append(v.news.Readings, key)
		}
	case record.KindAsk:
		set(v, v.node(ref.Cluster).Asks.m, ref.Name, kv, exists)
		clusters[ref.Cluster] = true
	case record.KindShown:
		set(v, v.node(ref.Cluster).Shown.m, ref.Name, kv, exists)
		clusters[ref.Cluster] = true
	case record.KindHold, record.KindHolding, record.KindWant, record.KindGrant, record.KindTokenAsk, record.KindGranted:
		v.applyToken(ref, kv, exists)
		federations[ref.Name] = true
	case record.KindObservedService:
		n := v.node(ref.Cluster)
		v.setObserved(n, ref.Name, kv, exists)
		if d, ok := n.Desired.m[ref.Name]; ok {
			federations[d.Rec.Federation] = true
			if _, known := v.Deleted.m[d.Rec.UID]; known {
				clusters[ref.Cluster] = true
			}
		}
	}
}

func (v *View) applyFederation(uid string, kv store.KV, exists bool) {
	if old, ok := v.Federations.m[uid]; ok {
		for _, m := range MembersOf(old.Rec) {
			mark(v.OnCluster.m, m.ClusterID, uid, false)
			if v.departing(m.ClusterID) {
				v.news.Departed = append(v.news.Departed, m.ClusterID)
			}
		}
		for _, m := range slices.Concat(old.Rec.Members, old.Rec.Leaving) {
			mark(v.Named.m, m.ServiceName, uid, false)
			v.news.formerly = append(v.news.formerly, m.ServiceName)
		}
	}
	set(v, v.Federations.m, uid, kv, exists)
	if f, ok := v.Federations.m[uid]; ok {
		for _, m := range MembersOf(f.Rec) {
			mark(v.OnCluster.m, m.ClusterID, uid, true)
		}
		for _, m := range slices.Concat(f.Rec.Members, f.Rec.Leaving) {
			mark(v.Named.m, m.ServiceName, uid, true)
		}
	}
}

// node returns the tree of a cluster, and makes it when there is none.
func (v *View) node(cluster string) *Node {
	n := v.Nodes.m[cluster]
	if n == nil {
		n = &Node{
			Desired: TableOf(map[string]Versioned[record.Desired]{}), Observed: TableOf(map[string]Versioned[record.Observed]{}),
			Asks: TableOf(map[string]Versioned[record.Ask]{}), Shown: TableOf(map[string]Versioned[record.Shown]{}),
			Assignments: TableOf(map[AttemptID]Versioned[record.Assignment]{}), Reports: TableOf(map[AttemptID]Versioned[record.JobReport]{}),
			Offers: TableOf(map[string]Versioned[record.Offer]{}), Answers: TableOf(map[string]Versioned[record.OfferAnswer]{}),
		}
		v.Nodes.m[cluster] = n
	}
	return n
}

func decode[T any](v *View, kv store.KV, exists bool) (*T, bool) {
	if !exists {
		return nil, false
	}
	rec, err := store.Decode[T](kv)
	if err == nil {
		if wrong := withinBounds(rec, len(kv.Value)); wrong != nil {
			err = &store.CorruptError{Key: kv.Key, Err: wrong}
		}
	}
	if err != nil {
		v.news.Corrupt = append(v.news.Corrupt, err)
		return nil, false
	}
	if word := record.Strange(rec); word != "" {
		v.news.Strange[kv.Key] = word
	}
	return rec, true
}

// set treats a record that cannot be read as absent: a corrupt record orders nothing.
func set[K comparable, T any](v *View, m map[K]Versioned[T], key K, kv store.KV, exists bool) {
	if rec, ok := decode[T](v, kv, exists); ok {
		m[key] = Versioned[T]{Rec: rec, Rev: kv.ModRevision}
		return
	}
	delete(m, key)
}

func one[T any](v *View, old Versioned[T], mine bool, kv store.KV, exists bool) Versioned[T] {
	if !mine {
		return old
	}
	if rec, ok := decode[T](v, kv, exists); ok {
		return Versioned[T]{Rec: rec, Rev: kv.ModRevision}
	}
	return Versioned[T]{}
}

func mark(m map[string]map[string]bool, key, member string, present bool) {
	if present {
		if m[key] == nil {
			m[key] = map[string]bool{}
		}
		m[key][member] = true
		return
	}
	delete(m[key], member)
	if len(m[key]) == 0 {
		delete(m, key)
	}
}
