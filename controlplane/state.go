package controlplane

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/oscarfed/oscarfed/store"
	"github.com/oscarfed/oscarfed/store/record"
)

// state is what this instance knows of the store, decoded and indexed, and
// consistent at one revision. It is a cache: every decision that is taken from it
// is committed by a transaction that compares the federation it was taken for.
// What it knows is read through read alone.
type state struct {
	mirror *store.Mirror
	feed   *store.Feed
	now    func() time.Time
	// elapsed is the time that is agreed on, counted on by the clock now.
	elapsed elapsed
	// subscribers are told what each refresh has changed. They are fixed before run.
	subscribers []func(*Changes)

	mu      sync.RWMutex
	view    View
	changed chan struct{}
	// watchers of jobs are told within the refresh: what is read afterwards is not
	// newer than what they have been told of.
	watchers jobWatchers
	// waiters are told within the refresh, too.
	waiters waiters
}

// View is the store at one revision. It is given to functions that read the state, and
// is good for as long as they run. Its records are shared: a reader changes none.
type View struct {
	revision    int64
	meta        *record.Meta
	fence       int64
	clusters    map[string]versioned[record.Cluster]
	federations map[string]versioned[record.Federation]
	names       map[string]string
	nodes       map[string]*node
	// named lists, for a service name, the federations with a member of that name,
	// also one that leaves.
	named map[string]map[string]bool
	// registrations counts the changes of what clusters are registered or were.
	registrations int
	// onCluster lists, for a cluster, the federations with a member on it, one that
	// is being added or one that leaves.
	onCluster map[string]map[string]bool
	deleted   map[string]versioned[record.Deleted]
	// deletedOf lists, for cluster/service, the uids of earlier lives.
	deletedOf map[string]map[string]bool
	// marked has, for the mark of a service's token, the place of that service.
	marked map[string]serviceAt
	// custody is of the tokens of each federation that has any.
	custody map[string]*custody
	// jobs is of the jobs.
	jobs jobIndex
	// news is what the present refresh has changed.
	news *Changes
}

// Changes is what one refresh of the state has seen.
type Changes struct {
	// Federations, by uid, and Clusters that a change concerns. The empty cluster stands
	// for the fence.
	Federations, Clusters map[string]bool
	// Jobs, by id, and Capacity says that some cluster has more or less to give.
	Jobs     map[string]bool
	Capacity bool
	// Ended are clusters whose session has ended, Departed those that are being removed,
	// or were, and Forgiven those that are readmitted, or are another one.
	Ended, Departed, Forgiven []string
	// Readings are the keys of reports that a refresh token was read.
	Readings []string
	// Meta is set when the meta record was written.
	Meta *record.Meta
	// Corrupt are errors of records that cannot be read, and Strange the words of a newer
	// version, by the key of their record.
	Corrupt []error
	Strange map[string]string
	// shown are clusters that are shown otherwise, and formerly the names that
	// federations had before.
	shown    map[string]bool
	formerly []string
}

func newChanges() *Changes {
	return &Changes{Federations: map[string]bool{}, Clusters: map[string]bool{}, Jobs: map[string]bool{}, Strange: map[string]string{}, shown: map[string]bool{}}
}

// versioned is a record with its mod revision.
type versioned[T any] struct {
	rec *T
	rev int64
}

// node is what stands below c/<cluster>/.
type node struct {
	session     versioned[record.Session]
	desired     map[string]versioned[record.Desired]
	observed    map[string]versioned[record.Observed]
	asks        map[string]versioned[record.Ask]
	shown       map[string]versioned[record.Shown]
	self        versioned[record.ObservedCluster]
	desiredSelf versioned[record.DesiredCluster]
	capacity    versioned[record.Capacity]
	assignments map[attemptID]versioned[record.Assignment]
	reports     map[attemptID]versioned[record.JobReport]
	offers      map[string]versioned[record.Offer]
	answers     map[string]versioned[record.OfferAnswer]
}

func newState(mirror *store.Mirror, now func() time.Time) *state {
	return &state{
		mirror: mirror, feed: mirror.Feed(), now: now, changed: make(chan struct{}),
		view: View{
			clusters: map[string]versioned[record.Cluster]{}, federations: map[string]versioned[record.Federation]{},
			names: map[string]string{}, marked: map[string]serviceAt{}, nodes: map[string]*node{},
			named: map[string]map[string]bool{}, onCluster: map[string]map[string]bool{},
			deleted: map[string]versioned[record.Deleted]{}, deletedOf: map[string]map[string]bool{},
			custody: map[string]*custody{}, jobs: newJobIndex(), news: newChanges(),
		},
	}
}

// subscribe has fn called after each refresh that has changed something, outside of the
// state's lock. All subscribe before run.
func (s *state) subscribe(fn func(*Changes)) { s.subscribers = append(s.subscribers, fn) }

// run keeps the state fresh until ctx ends.
func (s *state) run(ctx context.Context) error {
	for {
		if err := s.feed.Wait(ctx); err != nil {
			return err
		}
		s.refresh()
	}
}

// refresh applies what the mirror has seen since the last call.
func (s *state) refresh() {
	s.mu.Lock()
	keys, mirrored := s.feed.Take()
	v := &s.view
	news := newChanges()
	v.news = news
	for _, key := range keys {
		kv, ok := mirrored.KV(key)
		ref := record.ParseKey(key)
		trouble := v.trouble(ref.Cluster)
		if ref.Kind == record.KindElapsed {
			s.applyElapsed(kv, ok)
			continue
		}
		v.apply(key, kv, ok)
		if ref.Cluster != "" && v.departing(ref.Cluster) {
			news.Departed = append(news.Departed, ref.Cluster)
		}
		if shownOf(ref.Kind) || ref.Kind == record.KindObservedCluster && v.trouble(ref.Cluster) != trouble {
			news.shown[ref.Cluster] = true
		}
	}
	v.revision = mirrored.Revision()
	s.tellWaiters(news.Federations, news.shown, news.formerly)
	if len(news.Federations)+len(news.Clusters) > 0 {
		close(s.changed)
		s.changed = make(chan struct{})
	}
	if len(news.Jobs) > 0 {
		s.watchers.tell(news.Jobs)
	}
	s.mu.Unlock()
	if len(keys) > 0 {
		for _, tell := range s.subscribers {
			tell(news)
		}
	}
}

func (s *state) applyElapsed(kv store.KV, exists bool) {
	if e, err := store.Decode[record.Elapsed](kv); exists && err == nil {
		s.elapsed.saw(e, s.now())
	}
}

// wait returns once the state is at least as new as revision.
func (s *state) wait(ctx context.Context, revision int64) error {
	s.mu.RLock()
	fresh := s.view.revision >= revision
	s.mu.RUnlock()
	if fresh {
		return nil
	}
	if err := s.mirror.Wait(ctx, revision); err != nil {
		return err
	}
	s.refresh()
	return nil
}

// watch returns a channel that is closed at the next change, whatever it concerns. Who
// waits for a federation or a service has a waiter.
func (s *state) watch() <-chan struct{} {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.changed
}

// read runs fn while the state stands still. fn must not keep what it is given.
func (s *state) read(fn func(*View)) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	fn(&s.view)
}

func (v *View) apply(key string, kv store.KV, exists bool) {
	federations, clusters := v.news.Federations, v.news.Clusters
	ref := record.ParseKey(key)
	if v.applyJob(ref, kv, exists) {
		return
	}
	switch ref.Kind {
	case record.KindMeta:
		if m, ok := decode[record.Meta](v, kv, exists); ok {
			v.meta, v.news.Meta = m, m
		}
	case record.KindFence:
		v.fence = kv.ModRevision
		clusters[""] = true
	case record.KindCluster:
		v.registrations++
		old := v.clusters[ref.Cluster].rec
		set(v, v.clusters, ref.Cluster, kv, exists)
		if now := v.clusters[ref.Cluster].rec; now != nil && (old == nil || old.UID != now.UID || old.Revoked != nil && now.Revoked == nil) {
			v.news.Forgiven = append(v.news.Forgiven, ref.Cluster)
		}
		clusters[ref.Cluster] = true
	case record.KindName:
		delete(v.names, key)
		if n, ok := decode[record.Name](v, kv, exists); ok {
			v.names[key] = n.UID
		}
	case record.KindDeleted:
		if old, ok := v.deleted[ref.Name]; ok {
			mark(v.deletedOf, old.rec.ClusterID+"/"+old.rec.ServiceName, ref.Name, false)
		}
		set(v, v.deleted, ref.Name, kv, exists)
		if d, ok := v.deleted[ref.Name]; ok {
			mark(v.deletedOf, d.rec.ClusterID+"/"+d.rec.ServiceName, ref.Name, true)
		}
	case record.KindFederation:
		v.applyFederation(ref.Name, kv, exists)
		federations[ref.Name] = true
	case record.KindSession, record.KindObservedCluster, record.KindDesiredCluster:
		n := v.node(ref.Cluster)
		if ref.Kind == record.KindSession && !exists && n.session.rec != nil {
			v.news.Ended = append(v.news.Ended, ref.Cluster)
		}
		n.session = one(v, n.session, ref.Kind == record.KindSession, kv, exists)
		n.self = one(v, n.self, ref.Kind == record.KindObservedCluster, kv, exists)
		if ref.Kind == record.KindDesiredCluster {
			v.registrations++
		}
		n.desiredSelf = one(v, n.desiredSelf, ref.Kind == record.KindDesiredCluster, kv, exists)
		clusters[ref.Cluster] = true
	case record.KindDesiredService:
		n := v.node(ref.Cluster)
		if old, ok := n.desired[ref.Name]; ok {
			federations[old.rec.Federation] = true
			delete(v.marked, old.rec.Mark)
		}
		set(v, n.desired, ref.Name, kv, exists)
		if now, ok := n.desired[ref.Name]; ok {
			federations[now.rec.Federation] = true
			v.marked[now.rec.Mark] = serviceAt{ref.Cluster, ref.Name}
		}
	case record.KindReading:
		if exists {
			v.news.Readings = append(v.news.Readings, key)
		}
	case record.KindAsk:
		set(v, v.node(ref.Cluster).asks, ref.Name, kv, exists)
		clusters[ref.Cluster] = true
	case record.KindShown:
		set(v, v.node(ref.Cluster).shown, ref.Name, kv, exists)
		clusters[ref.Cluster] = true
	case record.KindHold, record.KindHolding, record.KindWant, record.KindGrant, record.KindTokenAsk, record.KindGranted:
		v.applyToken(ref, kv, exists)
		federations[ref.Name] = true
	case record.KindObservedService:
		n := v.node(ref.Cluster)
		v.setObserved(n, ref.Name, kv, exists)
		if d, ok := n.desired[ref.Name]; ok {
			federations[d.rec.Federation] = true
			if _, known := v.deleted[d.rec.UID]; known {
				clusters[ref.Cluster] = true
			}
		}
	}
}

func (v *View) applyFederation(uid string, kv store.KV, exists bool) {
	if old, ok := v.federations[uid]; ok {
		for _, m := range membersOf(old.rec) {
			mark(v.onCluster, m.ClusterID, uid, false)
			if v.departing(m.ClusterID) {
				v.news.Departed = append(v.news.Departed, m.ClusterID)
			}
		}
		for _, m := range slices.Concat(old.rec.Members, old.rec.Leaving) {
			mark(v.named, m.ServiceName, uid, false)
			v.news.formerly = append(v.news.formerly, m.ServiceName)
		}
	}
	set(v, v.federations, uid, kv, exists)
	if f, ok := v.federations[uid]; ok {
		for _, m := range membersOf(f.rec) {
			mark(v.onCluster, m.ClusterID, uid, true)
		}
		for _, m := range slices.Concat(f.rec.Members, f.rec.Leaving) {
			mark(v.named, m.ServiceName, uid, true)
		}
	}
}

// node gives the tree of a cluster, made at need.
func (v *View) node(cluster string) *node {
	n := v.nodes[cluster]
	if n == nil {
		n = &node{
			desired: map[string]versioned[record.Desired]{}, observed: map[string]versioned[record.Observed]{},
			asks: map[string]versioned[record.Ask]{}, shown: map[string]versioned[record.Shown]{},
			assignments: map[attemptID]versioned[record.Assignment]{}, reports: map[attemptID]versioned[record.JobReport]{},
			offers: map[string]versioned[record.Offer]{}, answers: map[string]versioned[record.OfferAnswer]{},
		}
		v.nodes[cluster] = n
	}
	return n
}

// epoch is the present one as records name it.
func (v *View) epoch() string {
	if v.meta == nil {
		return ""
	}
	return v.meta.Word()
}

// alive says whether the cluster's syncer holds a session.
func (v *View) alive(cluster string) bool {
	n := v.nodes[cluster]
	return n != nil && n.session.rec != nil
}

func (v *View) desired(cluster, service string) versioned[record.Desired] {
	if n := v.nodes[cluster]; n != nil {
		return n.desired[service]
	}
	return versioned[record.Desired]{}
}

func (v *View) observed(cluster, service string) versioned[record.Observed] {
	if n := v.nodes[cluster]; n != nil {
		return n.observed[service]
	}
	return versioned[record.Observed]{}
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

// set keeps what cannot be read as absent: a corrupt record orders nothing.
func set[K comparable, T any](v *View, m map[K]versioned[T], key K, kv store.KV, exists bool) {
	if rec, ok := decode[T](v, kv, exists); ok {
		m[key] = versioned[T]{rec: rec, rev: kv.ModRevision}
		return
	}
	delete(m, key)
}

func one[T any](v *View, old versioned[T], mine bool, kv store.KV, exists bool) versioned[T] {
	if !mine {
		return old
	}
	if rec, ok := decode[T](v, kv, exists); ok {
		return versioned[T]{rec: rec, rev: kv.ModRevision}
	}
	return versioned[T]{}
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
