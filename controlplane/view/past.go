package view

import (
	"iter"
	"maps"
	"slices"
	"strings"

	"github.com/oscarfed/oscarfed/store"
	"github.com/oscarfed/oscarfed/store/record"
)

// Past is the view as it was at a revision: the present one, and what the records that have
// changed since then held. It shows federations and clusters; it has no jobs and no tokens. It is
// valid only while the function runs that receives it.
type Past struct {
	// Revision is the one that it shows.
	Revision int64
	// Now is the present view.
	Now    *View
	mirror *store.MirrorView
	former map[string]*store.KV
	// clusters and locations are those with a record that has changed since.
	clusters  map[string]bool
	locations map[Location]bool
	// federations are those whose own record has changed, with what it was; nil for none.
	federations map[string]*Versioned[record.Federation]
	// everywhere says that a record has changed that concerns all.
	everywhere bool
}

// Shows says whether a key is of a record that Past can show as it was.
func Shows(key string) bool {
	switch record.ParseKey(key).Kind {
	case record.KindMeta, record.KindFederation, record.KindCluster, record.KindSession, record.KindDesiredCluster,
		record.KindObservedCluster, record.KindDesiredService, record.KindObservedService:
		return true
	default:
		return false
	}
}

// PastReader reads the view as it was at one revision, again and again while the state moves on.
// It remembers what it has seen, so that only a reader that pauses for long loses its revision.
// One goroutine uses it.
type PastReader struct {
	state *State
	past  Past
	// upTo is the revision of the state at the last read.
	upTo int64
	// bytes estimates what past.former takes.
	bytes int
}

// maxPast bounds, in bytes, what a reader remembers.
const maxPast = 64 << 20

// At makes a reader of the view as it was at a revision, which the state must have reached.
func (s *State) At(revision int64) *PastReader {
	return &PastReader{state: s, upTo: revision, past: Past{
		Revision: revision, former: map[string]*store.KV{}, clusters: map[string]bool{}, locations: map[Location]bool{},
		federations: map[string]*Versioned[record.Federation]{},
	}}
}

// Revision is the one that the reader shows.
func (r *PastReader) Revision() int64 { return r.past.Revision }

// Read runs fn while the state does not change. fn must not keep its Past. The error is
// store.ErrCompacted when the revision is not known any more.
func (r *PastReader) Read(fn func(*Past)) error {
	r.state.mu.RLock()
	defer r.state.mu.RUnlock()
	now, p := &r.state.view, &r.past
	former, err := r.state.Mirror.Former(r.upTo, now.Revision)
	if err != nil {
		return err
	}
	for key, kv := range former {
		if _, earlier := p.former[key]; !earlier {
			p.former[key] = kv
			p.note(key, kv)
			r.bytes += len(key)
			if kv != nil {
				r.bytes += len(kv.Value)
			}
		}
	}
	if r.bytes > maxPast {
		return store.ErrCompacted
	}
	r.upTo, p.Now, p.mirror = max(r.upTo, now.Revision), now, r.state.mirrored
	fn(p)
	return nil
}

// note takes in one key that has changed since.
func (p *Past) note(key string, kv *store.KV) {
	ref := record.ParseKey(key)
	switch ref.Kind {
	case record.KindMeta:
		p.everywhere = true
	case record.KindFederation:
		p.federations[ref.Name] = nil
		if kv == nil {
			return
		}
		if rec, err := store.Decode[record.Federation](*kv); err == nil {
			p.federations[ref.Name] = &Versioned[record.Federation]{Rec: rec, Rev: kv.ModRevision}
		}
	case record.KindDesiredService, record.KindObservedService:
		p.locations[Location{ref.Cluster, ref.Name}] = true
	default:
		p.clusters[ref.Cluster] = true
	}
}

// kv is what a key held; nil for nothing.
func (p *Past) kv(key string) *store.KV {
	if kv, changed := p.former[key]; changed {
		return kv
	}
	if kv, ok := p.mirror.KV(key); ok {
		return &kv
	}
	return nil
}

// Changed says whether anything that Past shows has changed since.
func (p *Past) Changed() bool { return len(p.former) > 0 }

// Federation is the record of a federation; its Rec is nil when there was none.
func (p *Past) Federation(uid string) Versioned[record.Federation] {
	if was, changed := p.federations[uid]; changed {
		if was == nil {
			return Versioned[record.Federation]{}
		}
		return *was
	}
	return p.Now.Federations.m[uid]
}

// Federations are the positions of the federations behind one, in order.
func (p *Past) Federations(after FederationPos) iter.Seq[FederationPos] {
	var was []FederationPos
	for _, f := range p.federations {
		if f != nil && posOf(f.Rec).compare(after) > 0 {
			was = append(was, posOf(f.Rec))
		}
	}
	slices.SortFunc(was, FederationPos.compare)
	return merged(p.Now.orders.federations.After(after), was, FederationPos.compare, func(at FederationPos) bool {
		_, changed := p.federations[at.UID]
		return changed
	})
}

// Replicas are the positions of the replicas behind one, in order.
func (p *Past) Replicas(after ReplicaPos) iter.Seq[ReplicaPos] {
	var was []ReplicaPos
	for _, f := range p.federations {
		if f == nil {
			continue
		}
		for at := range replicasOf(f.Rec) {
			if at.compare(after) > 0 {
				was = append(was, at)
			}
		}
	}
	slices.SortFunc(was, ReplicaPos.compare)
	return merged(p.Now.orders.replicas.After(after), was, ReplicaPos.compare, func(at ReplicaPos) bool {
		_, changed := p.federations[at.UID]
		return changed
	})
}

// Clusters are the ids of the clusters that were registered, behind one, in order.
func (p *Past) Clusters(after string) iter.Seq[string] {
	ids := p.Now.orders.clusters.After(after)
	if len(p.clusters) == 0 {
		return ids
	}
	var was []string
	for id := range p.clusters {
		if id > after && p.kv(record.ClusterKey(id)) != nil {
			was = append(was, id)
		}
	}
	slices.Sort(was)
	return merged(ids, was, strings.Compare, func(id string) bool { return p.clusters[id] })
}

// merged are the present keys without those that are replaced, and the former ones, in order.
func merged[K any](now iter.Seq[K], was []K, compare func(a, b K) int, replaced func(K) bool) iter.Seq[K] {
	return func(yield func(K) bool) {
		rest := was
		for k := range now {
			if replaced(k) {
				continue
			}
			for len(rest) > 0 && compare(rest[0], k) < 0 {
				if !yield(rest[0]) {
					return
				}
				rest = rest[1:]
			}
			if !yield(k) {
				return
			}
		}
		for _, k := range rest {
			if !yield(k) {
				return
			}
		}
	}
}

// ViewOf is a view that has what showing a federation takes, at the revision.
func (p *Past) ViewOf(f *record.Federation) *View {
	if !p.touched(f) {
		return p.Now
	}
	keys := map[string]bool{record.MetaKey: true}
	for _, m := range MembersOf(f) {
		if m.ClusterID == "" {
			continue
		}
		keys[record.DesiredServiceKey(m.ClusterID, m.ServiceName)] = true
		keys[record.ObservedServiceKey(m.ClusterID, m.ServiceName)] = true
		addClusterKeys(keys, m.ClusterID)
	}
	return p.viewOf(keys)
}

// ViewOfCluster is a view that has what showing a cluster takes, at the revision.
func (p *Past) ViewOfCluster(id string) *View {
	if !p.everywhere && !p.clusters[id] {
		return p.Now
	}
	keys := map[string]bool{record.MetaKey: true}
	addClusterKeys(keys, id)
	return p.viewOf(keys)
}

func addClusterKeys(keys map[string]bool, id string) {
	for _, key := range []string{record.ClusterKey(id), record.SessionKey(id), record.DesiredClusterKey(id), record.ObservedClusterKey(id)} {
		keys[key] = true
	}
}

func (p *Past) viewOf(keys map[string]bool) *View {
	var kvs []store.KV
	for key := range keys {
		if kv := p.kv(key); kv != nil {
			kvs = append(kvs, *kv)
		}
	}
	slices.SortFunc(kvs, func(a, b store.KV) int { return strings.Compare(a.Key, b.Key) })
	return Of(kvs...)
}

// touched says whether something that showing a federation takes has changed since.
func (p *Past) touched(f *record.Federation) bool {
	if p.everywhere {
		return true
	}
	if len(p.clusters) == 0 && len(p.locations) == 0 {
		return false
	}
	return slices.ContainsFunc(MembersOf(f), func(m record.Member) bool {
		return p.clusters[m.ClusterID] || p.locations[Location{m.ClusterID, m.ServiceName}]
	})
}

// Show is a federation as it was. It may share memory with the present view.
func (p *Past) Show(f Versioned[record.Federation]) Federation {
	return p.ViewOf(f.Rec).Show(f.Rec, f.Rev).Federation
}

// ChangedFederations are the uids of the federations that look, or looked, different for some
// caller because of what has changed since.
func (p *Past) ChangedFederations() []string {
	out := map[string]bool{}
	for uid := range p.federations {
		out[uid] = true
	}
	for cluster := range p.clusters {
		if !p.looksDifferent(cluster) {
			continue
		}
		for uid := range p.Now.OnCluster.Of(cluster) {
			out[uid] = true
		}
	}
	for at := range p.locations {
		for uid := range p.Now.Named.Of(at.Service) {
			if p.Now.OnCluster.Has(at.Cluster, uid) {
				out[uid] = true
			}
		}
	}
	if p.everywhere {
		for uid := range p.Now.Federations.m {
			out[uid] = true
		}
	}
	return slices.Sorted(maps.Keys(out))
}

// looksDifferent says whether the changes of a cluster's records can be seen in the federations on
// it. Most are reports of its queue, which cannot.
func (p *Past) looksDifferent(cluster string) bool {
	for _, key := range []string{record.ClusterKey(cluster), record.SessionKey(cluster), record.DesiredClusterKey(cluster)} {
		if _, changed := p.former[key]; changed {
			return true
		}
	}
	was := p.ViewOfCluster(cluster)
	return was.Trouble(cluster) != p.Now.Trouble(cluster) || was.Compared(cluster) != p.Now.Compared(cluster)
}

// ChangedClusters are the ids of the clusters with a record that has changed since.
func (p *Past) ChangedClusters() []string { return slices.Sorted(maps.Keys(p.clusters)) }
