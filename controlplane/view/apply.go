package view

import (
	"slices"

	"github.com/oscarfed/oscarfed/store"
	"github.com/oscarfed/oscarfed/store/record"
)

// apply takes over one key, as it is now in the store.
func (v *View) apply(key string, kv store.KV, exists bool) {
	ref := record.ParseKey(key)
	switch ref.Kind {
	case record.KindMeta:
		if m, ok := decode[record.Meta](v, kv, exists); ok {
			v.news.Records.Meta = Replaced[record.Meta]{v.Meta, m}
			v.Meta, v.news.Meta = m, m
		}
	case record.KindFence:
		v.Fence = kv.ModRevision
		v.news.Clusters[""] = true
	case record.KindInstance:
		set(v, v.Instances.m, ref.Name, kv, exists)
	case record.KindName:
		delete(v.Names.m, key)
		if n, ok := decode[record.Name](v, kv, exists); ok {
			v.Names.m[key] = n.UID
		}
	case record.KindDeleted:
		v.applyDeleted(ref.Name, kv, exists)
	case record.KindFederation:
		v.applyFederation(ref.Name, kv, exists)
	case record.KindReading:
		if exists {
			v.news.Readings = append(v.news.Readings, key)
		}
	case record.KindHold, record.KindHolding, record.KindWant, record.KindGrant, record.KindTokenAsk, record.KindGranted:
		v.applyToken(ref, kv, exists)
	case record.KindDesiredService:
		v.applyDesired(ref, kv, exists)
	case record.KindObservedService:
		v.applyObserved(ref, kv, exists)
	case record.KindCluster, record.KindSession, record.KindObservedCluster, record.KindDesiredCluster, record.KindAsk, record.KindShown:
		v.applyCluster(ref, kv, exists)
	case record.KindJob, record.KindReserved, record.KindCapacity, record.KindAssignment, record.KindJobReport:
		v.applyJob(ref, kv, exists)
	case record.KindOffer, record.KindOfferAnswer:
		v.applyOffer(ref, kv, exists)
	default: // it is not mirrored, or of a newer version
	}
}

// applyCluster takes over a record about a cluster itself.
func (v *View) applyCluster(ref record.Ref, kv store.KV, exists bool) {
	switch ref.Kind {
	case record.KindCluster:
		v.applyRegistration(ref.Cluster, kv, exists)
	case record.KindSession:
		n := v.node(ref.Cluster)
		if !exists && n.Session.Rec != nil {
			v.news.Ended = append(v.news.Ended, EndedSession{ref.Cluster, n.Session.Rev})
		}
		was := n.Session.Rec
		n.Session = one[record.Session](v, kv, exists)
		v.news.Records.Sessions = append(v.news.Records.Sessions, Reported[record.Session]{Cluster: ref.Cluster, Replaced: Replaced[record.Session]{was, n.Session.Rec}})
	case record.KindObservedCluster:
		n := v.node(ref.Cluster)
		was := n.Self.Rec
		v.ofOscar(ref.Cluster, false)
		n.Self = one[record.ObservedCluster](v, kv, exists)
		v.ofOscar(ref.Cluster, true)
		v.news.Records.Selfs = append(v.news.Records.Selfs, Reported[record.ObservedCluster]{Cluster: ref.Cluster, Replaced: Replaced[record.ObservedCluster]{was, n.Self.Rec}})
	case record.KindDesiredCluster:
		v.Registrations++
		n := v.node(ref.Cluster)
		v.toldSame(ref.Cluster, n.DesiredSelf.Rec, false)
		n.DesiredSelf = one[record.DesiredCluster](v, kv, exists)
		v.toldSame(ref.Cluster, n.DesiredSelf.Rec, true)
	case record.KindAsk:
		set(v, v.node(ref.Cluster).Asks.m, ref.Name, kv, exists)
	case record.KindShown:
		set(v, v.node(ref.Cluster).Shown.m, ref.Name, kv, exists)
	default:
	}
	v.news.Clusters[ref.Cluster] = true
}

func (v *View) applyRegistration(cluster string, kv store.KV, exists bool) {
	v.Registrations++
	old := v.Clusters.m[cluster].Rec
	v.ofOscar(cluster, false)
	set(v, v.Clusters.m, cluster, kv, exists)
	v.ofOscar(cluster, true)
	v.orders.setCluster(cluster, v.Clusters.m[cluster].Rec != nil)
	v.news.Records.Clusters = append(v.news.Records.Clusters, Reported[record.Cluster]{Cluster: cluster, Replaced: Replaced[record.Cluster]{old, v.Clusters.m[cluster].Rec}})
	if now := v.Clusters.m[cluster].Rec; now != nil && (old == nil || old.UID != now.UID || readmitted(old, now)) {
		v.news.Forgiven = append(v.news.Forgiven, cluster)
	}
}

// readmitted says whether a revocation ended between two states of a registration. An instance that lags may have seen
// neither its beginning nor its end; older versions note no end.
func readmitted(old, now *record.Cluster) bool {
	return old.Revoked != nil && now.Revoked == nil ||
		now.ReadmittedAt != nil && (old.ReadmittedAt == nil || !old.ReadmittedAt.Equal(now.ReadmittedAt.Time))
}

func (v *View) applyDeleted(uid string, kv store.KV, exists bool) {
	if old, ok := v.Deleted.m[uid]; ok {
		v.DeletedOf.mark(old.Rec.ClusterID+"/"+old.Rec.ServiceName, uid, false)
	}
	set(v, v.Deleted.m, uid, kv, exists)
	if d, ok := v.Deleted.m[uid]; ok {
		v.DeletedOf.mark(d.Rec.ClusterID+"/"+d.Rec.ServiceName, uid, true)
	}
}

func (v *View) applyDesired(ref record.Ref, kv store.KV, exists bool) {
	n := v.node(ref.Cluster)
	if old, ok := n.Desired.m[ref.Name]; ok {
		v.news.Federations[old.Rec.Federation] = true
		delete(v.Marked.m, old.Rec.Mark)
	}
	set(v, n.Desired.m, ref.Name, kv, exists)
	if now, ok := n.Desired.m[ref.Name]; ok {
		v.news.Federations[now.Rec.Federation] = true
		v.Marked.m[now.Rec.Mark] = Location{ref.Cluster, ref.Name}
	}
}

func (v *View) applyObserved(ref record.Ref, kv store.KV, exists bool) {
	n := v.node(ref.Cluster)
	was := n.Observed.m[ref.Name].Rec
	v.setObserved(n, ref.Name, kv, exists)
	v.news.Records.Observed = append(v.news.Records.Observed, Reported[record.Observed]{ref.Cluster, ref.Name, Replaced[record.Observed]{was, n.Observed.m[ref.Name].Rec}})
	if d, ok := n.Desired.m[ref.Name]; ok {
		v.news.Federations[d.Rec.Federation] = true
		if _, known := v.Deleted.m[d.Rec.UID]; known {
			v.news.Clusters[ref.Cluster] = true
		}
	}
}

func (v *View) applyFederation(uid string, kv store.KV, exists bool) {
	v.news.Federations[uid] = true
	was := v.Federations.m[uid].Rec
	if old, ok := v.Federations.m[uid]; ok {
		v.InBatch.mark(old.Rec.Batch, uid, false)
		for _, m := range MembersOf(old.Rec) {
			v.OnCluster.mark(m.ClusterID, uid, false)
			if v.departing(m.ClusterID) {
				v.news.Departed = append(v.news.Departed, m.ClusterID)
			}
		}
		for _, m := range slices.Concat(old.Rec.Members, old.Rec.Leaving) {
			v.Named.mark(m.ServiceName, uid, false)
			v.news.formerly = append(v.news.formerly, m.ServiceName)
		}
	}
	set(v, v.Federations.m, uid, kv, exists)
	v.orders.setFederation(was, v.Federations.m[uid].Rec)
	if was != nil {
		for _, former := range was.Former {
			delete(v.heirs, former)
		}
	}
	v.news.Records.Federations = append(v.news.Records.Federations, Replaced[record.Federation]{was, v.Federations.m[uid].Rec})
	if f, ok := v.Federations.m[uid]; ok {
		for _, former := range f.Rec.Former {
			v.heirs[former] = uid
			v.news.Federations[former] = true
		}
		if f.Rec.Batch != "" {
			v.InBatch.mark(f.Rec.Batch, uid, true)
		}
		for _, m := range MembersOf(f.Rec) {
			v.OnCluster.mark(m.ClusterID, uid, true)
		}
		for _, m := range slices.Concat(f.Rec.Members, f.Rec.Leaving) {
			v.Named.mark(m.ServiceName, uid, true)
		}
	}
}

// node returns the tree of a cluster, and makes it when there is none.
func (v *View) node(cluster string) *Node {
	n := v.Nodes.m[cluster]
	if n == nil {
		n = &Node{
			Desired: tableOf(map[string]Versioned[record.Desired]{}), Observed: tableOf(map[string]Versioned[record.Observed]{}),
			Asks: tableOf(map[string]Versioned[record.Ask]{}), Shown: tableOf(map[string]Versioned[record.Shown]{}),
			Assignments: tableOf(map[AttemptID]Versioned[record.Assignment]{}), Reports: tableOf(map[AttemptID]Versioned[record.JobReport]{}),
			Offers: tableOf(map[string]Versioned[record.Offer]{}), Answers: tableOf(map[string]Versioned[record.OfferAnswer]{}),
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
	record.Compact(rec, kv.Value) // which the mirror keeps
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

// one is the record of a key of which a cluster has one. A record that cannot be read counts as
// absent.
func one[T any](v *View, kv store.KV, exists bool) Versioned[T] {
	if rec, ok := decode[T](v, kv, exists); ok {
		return Versioned[T]{Rec: rec, Rev: kv.ModRevision}
	}
	return Versioned[T]{}
}
