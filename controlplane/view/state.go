package view

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/oscarfed/oscarfed/store"
	"github.com/oscarfed/oscarfed/store/record"
)

// State is what this instance knows of the store, decoded and indexed, and
// consistent at one revision. It is a cache: every decision that is taken from it
// is committed by a transaction that compares the federation it was taken for.
// What it knows is read through read alone.
type State struct {
	Mirror *store.Mirror
	feed   *store.Feed
	now    func() time.Time
	// elapsed is the time that is agreed on, counted on by the clock now.
	Elapsed elapsed
	// subscribers are told what each refresh has changed. They are fixed before run.
	subscribers []func(*Changes)

	mu      sync.RWMutex
	view    View
	changed chan struct{}
	// watchers of jobs are told within the refresh: what is read afterwards is not
	// newer than what they have been told of.
	Watchers jobWatchers
	// waiters are told within the refresh, too.
	Waiters waiters
}

// View is the store at one revision. It is given to functions that read the state, and
// is good for as long as they run. Its records are shared: a reader changes none.
type View struct {
	Revision    int64
	Meta        *record.Meta
	Fence       int64
	Clusters    map[string]Versioned[record.Cluster]
	Federations map[string]Versioned[record.Federation]
	Names       map[string]string
	Nodes       map[string]*Node
	// named lists, for a service name, the federations with a member of that name,
	// also one that leaves.
	Named map[string]map[string]bool
	// registrations counts the changes of what clusters are registered or were.
	Registrations int
	// onCluster lists, for a cluster, the federations with a member on it, one that
	// is being added or one that leaves.
	OnCluster map[string]map[string]bool
	Deleted   map[string]Versioned[record.Deleted]
	// deletedOf lists, for cluster/service, the uids of earlier lives.
	DeletedOf map[string]map[string]bool
	// marked has, for the mark of a service's token, the place of that service.
	Marked map[string]serviceAt
	// custody is of the tokens of each federation that has any.
	Custody map[string]*TokenState
	// jobs is of the jobs.
	Jobs jobIndex
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

// Versioned is a record with its mod revision.
type Versioned[T any] struct {
	Rec *T
	Rev int64
}

// Node is what stands below c/<cluster>/.
type Node struct {
	Session     Versioned[record.Session]
	Desired     map[string]Versioned[record.Desired]
	Observed    map[string]Versioned[record.Observed]
	Asks        map[string]Versioned[record.Ask]
	Shown       map[string]Versioned[record.Shown]
	Self        Versioned[record.ObservedCluster]
	DesiredSelf Versioned[record.DesiredCluster]
	Capacity    Versioned[record.Capacity]
	Assignments map[AttemptID]Versioned[record.Assignment]
	Reports     map[AttemptID]Versioned[record.JobReport]
	Offers      map[string]Versioned[record.Offer]
	Answers     map[string]Versioned[record.OfferAnswer]
}

// NewState follows a mirror. It starts nothing.
func NewState(mirror *store.Mirror, now func() time.Time) *State {
	return &State{
		Mirror: mirror, feed: mirror.Feed(), now: now, changed: make(chan struct{}),
		view: View{
			Clusters: map[string]Versioned[record.Cluster]{}, Federations: map[string]Versioned[record.Federation]{},
			Names: map[string]string{}, Marked: map[string]serviceAt{}, Nodes: map[string]*Node{},
			Named: map[string]map[string]bool{}, OnCluster: map[string]map[string]bool{},
			Deleted: map[string]Versioned[record.Deleted]{}, DeletedOf: map[string]map[string]bool{},
			Custody: map[string]*TokenState{}, Jobs: newJobIndex(), news: newChanges(),
		},
	}
}

// Subscribe has fn called after each refresh that has changed something, outside of the
// state's lock. All subscribe before run.
func (s *State) Subscribe(fn func(*Changes)) { s.subscribers = append(s.subscribers, fn) }

// Run keeps the state fresh until ctx ends.
func (s *State) Run(ctx context.Context) error {
	for {
		if err := s.feed.Wait(ctx); err != nil {
			return err
		}
		s.Refresh()
	}
}

// Refresh applies what the mirror has seen since the last call.
func (s *State) Refresh() {
	s.mu.Lock()
	keys, mirrored := s.feed.Take()
	v := &s.view
	news := newChanges()
	v.news = news
	for _, key := range keys {
		kv, ok := mirrored.KV(key)
		ref := record.ParseKey(key)
		trouble := v.Trouble(ref.Cluster)
		if ref.Kind == record.KindElapsed {
			s.applyElapsed(kv, ok)
			continue
		}
		v.apply(key, kv, ok)
		if ref.Cluster != "" && v.departing(ref.Cluster) {
			news.Departed = append(news.Departed, ref.Cluster)
		}
		if shownOf(ref.Kind) || ref.Kind == record.KindObservedCluster && v.Trouble(ref.Cluster) != trouble {
			news.shown[ref.Cluster] = true
		}
	}
	v.Revision = mirrored.Revision()
	s.tellWaiters(news.Federations, news.shown, news.formerly)
	if len(news.Federations)+len(news.Clusters) > 0 {
		close(s.changed)
		s.changed = make(chan struct{})
	}
	if len(news.Jobs) > 0 {
		s.Watchers.tell(news.Jobs)
	}
	s.mu.Unlock()
	if len(keys) > 0 {
		for _, tell := range s.subscribers {
			tell(news)
		}
	}
}

func (s *State) applyElapsed(kv store.KV, exists bool) {
	if e, err := store.Decode[record.Elapsed](kv); exists && err == nil {
		s.Elapsed.Observe(e, s.now())
	}
}

// Wait returns once the state is at least as new as revision.
func (s *State) Wait(ctx context.Context, revision int64) error {
	s.mu.RLock()
	fresh := s.view.Revision >= revision
	s.mu.RUnlock()
	if fresh {
		return nil
	}
	if err := s.Mirror.Wait(ctx, revision); err != nil {
		return err
	}
	s.Refresh()
	return nil
}

// Watch returns a channel that is closed at the next change, whatever it concerns. Who
// waits for a federation or a service has a waiter.
func (s *State) Watch() <-chan struct{} {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.changed
}

// Read runs fn while the state stands still. fn must not keep what it is given.
func (s *State) Read(fn func(*View)) {
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
			v.Meta, v.news.Meta = m, m
		}
	case record.KindFence:
		v.Fence = kv.ModRevision
		clusters[""] = true
	case record.KindCluster:
		v.Registrations++
		old := v.Clusters[ref.Cluster].Rec
		set(v, v.Clusters, ref.Cluster, kv, exists)
		if now := v.Clusters[ref.Cluster].Rec; now != nil && (old == nil || old.UID != now.UID || old.Revoked != nil && now.Revoked == nil) {
			v.news.Forgiven = append(v.news.Forgiven, ref.Cluster)
		}
		clusters[ref.Cluster] = true
	case record.KindName:
		delete(v.Names, key)
		if n, ok := decode[record.Name](v, kv, exists); ok {
			v.Names[key] = n.UID
		}
	case record.KindDeleted:
		if old, ok := v.Deleted[ref.Name]; ok {
			mark(v.DeletedOf, old.Rec.ClusterID+"/"+old.Rec.ServiceName, ref.Name, false)
		}
		set(v, v.Deleted, ref.Name, kv, exists)
		if d, ok := v.Deleted[ref.Name]; ok {
			mark(v.DeletedOf, d.Rec.ClusterID+"/"+d.Rec.ServiceName, ref.Name, true)
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
		if old, ok := n.Desired[ref.Name]; ok {
			federations[old.Rec.Federation] = true
			delete(v.Marked, old.Rec.Mark)
		}
		set(v, n.Desired, ref.Name, kv, exists)
		if now, ok := n.Desired[ref.Name]; ok {
			federations[now.Rec.Federation] = true
			v.Marked[now.Rec.Mark] = serviceAt{ref.Cluster, ref.Name}
		}
	case record.KindReading:
		if exists {
			v.news.Readings = append(v.news.Readings, key)
		}
	case record.KindAsk:
		set(v, v.node(ref.Cluster).Asks, ref.Name, kv, exists)
		clusters[ref.Cluster] = true
	case record.KindShown:
		set(v, v.node(ref.Cluster).Shown, ref.Name, kv, exists)
		clusters[ref.Cluster] = true
	case record.KindHold, record.KindHolding, record.KindWant, record.KindGrant, record.KindTokenAsk, record.KindGranted:
		v.applyToken(ref, kv, exists)
		federations[ref.Name] = true
	case record.KindObservedService:
		n := v.node(ref.Cluster)
		v.setObserved(n, ref.Name, kv, exists)
		if d, ok := n.Desired[ref.Name]; ok {
			federations[d.Rec.Federation] = true
			if _, known := v.Deleted[d.Rec.UID]; known {
				clusters[ref.Cluster] = true
			}
		}
	}
}

func (v *View) applyFederation(uid string, kv store.KV, exists bool) {
	if old, ok := v.Federations[uid]; ok {
		for _, m := range MembersOf(old.Rec) {
			mark(v.OnCluster, m.ClusterID, uid, false)
			if v.departing(m.ClusterID) {
				v.news.Departed = append(v.news.Departed, m.ClusterID)
			}
		}
		for _, m := range slices.Concat(old.Rec.Members, old.Rec.Leaving) {
			mark(v.Named, m.ServiceName, uid, false)
			v.news.formerly = append(v.news.formerly, m.ServiceName)
		}
	}
	set(v, v.Federations, uid, kv, exists)
	if f, ok := v.Federations[uid]; ok {
		for _, m := range MembersOf(f.Rec) {
			mark(v.OnCluster, m.ClusterID, uid, true)
		}
		for _, m := range slices.Concat(f.Rec.Members, f.Rec.Leaving) {
			mark(v.Named, m.ServiceName, uid, true)
		}
	}
}

// node gives the tree of a cluster, made at need.
func (v *View) node(cluster string) *Node {
	n := v.Nodes[cluster]
	if n == nil {
		n = &Node{
			Desired: map[string]Versioned[record.Desired]{}, Observed: map[string]Versioned[record.Observed]{},
			Asks: map[string]Versioned[record.Ask]{}, Shown: map[string]Versioned[record.Shown]{},
			Assignments: map[AttemptID]Versioned[record.Assignment]{}, Reports: map[AttemptID]Versioned[record.JobReport]{},
			Offers: map[string]Versioned[record.Offer]{}, Answers: map[string]Versioned[record.OfferAnswer]{},
		}
		v.Nodes[cluster] = n
	}
	return n
}

// Epoch is the present one as records name it.
func (v *View) Epoch() string {
	if v.Meta == nil {
		return ""
	}
	return v.Meta.Word()
}

// Alive says whether the cluster's syncer holds a session.
func (v *View) Alive(cluster string) bool {
	n := v.Nodes[cluster]
	return n != nil && n.Session.Rec != nil
}

// Desired is what is asked of a service on a cluster.
func (v *View) Desired(cluster, service string) Versioned[record.Desired] {
	if n := v.Nodes[cluster]; n != nil {
		return n.Desired[service]
	}
	return Versioned[record.Desired]{}
}

// Observed is what the syncer of a cluster reports of a service.
func (v *View) Observed(cluster, service string) Versioned[record.Observed] {
	if n := v.Nodes[cluster]; n != nil {
		return n.Observed[service]
	}
	return Versioned[record.Observed]{}
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
