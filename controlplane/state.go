package controlplane

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/oscarfed/oscarfed/internal/clock"
	"github.com/oscarfed/oscarfed/store"
	"github.com/oscarfed/oscarfed/store/record"
)

// state is what this instance knows of the store, decoded and indexed, and
// consistent at one revision. It is a cache: every decision that is taken from it
// is committed by a transaction that compares the federation it was taken for.
type state struct {
	mirror *store.Mirror
	feed   *store.Feed
	// corrupt is told of records that cannot be read.
	corrupt func(err error)
	// strange is told of records with a word of a newer version.
	strange func(key, word string)
	// touched is told which federations and clusters a change concerns.
	touched func(federations, clusters []string)
	// ended is told of clusters whose session has ended.
	ended func(cluster string)
	// departed is told of changes on clusters that are being removed, or were.
	departed func(cluster string)
	// readToken is told of reports that a refresh token was read.
	readToken func(key string)
	// forgiven is told of clusters that are readmitted, or are another one.
	forgiven func(cluster string)
	// streams says whether the syncer of a registration has a stream to this instance.
	streams func(cluster, uid string) bool
	// token gives the service token of a replica.
	token func(uid string) string
	// minimum is told what the store asks of those who work with it.
	minimum func(record.Minimum)
	// metaChanged is told when the meta record was written.
	metaChanged chan struct{}

	mu       sync.RWMutex
	revision int64
	changed  chan struct{}
	meta     *record.Meta
	fence    int64
	// elapsed is the time that is agreed on, counted on by the clock now.
	elapsed elapsed
	// jobsSeen is when this instance first saw the pauses of jobs, and frozen Jobs.
	jobsSeen    clock.Sightings
	now         func() time.Time
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
	// jobs is of the jobs, and jobsChanged is told what a change concerns of them.
	jobs        jobIndex
	jobsChanged func(news jobNews, federations, clusters []string)
	// watchers of jobs are told within the refresh: what is read afterwards is not
	// newer than what they have been told of.
	watchers jobWatchers
	// waiters are told within the refresh, too; formerly are names that a federation had
	// before a change of the present refresh.
	waiters  waiters
	formerly []string
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

func newState(mirror *store.Mirror) *state {
	return &state{
		mirror:      mirror,
		now:         time.Now,
		feed:        mirror.Feed(),
		corrupt:     func(error) {},
		strange:     func(string, string) {},
		minimum:     func(record.Minimum) {},
		touched:     func([]string, []string) {},
		ended:       func(string) {},
		departed:    func(string) {},
		forgiven:    func(string) {},
		readToken:   func(string) {},
		streams:     func(string, string) bool { return false },
		changed:     make(chan struct{}),
		metaChanged: make(chan struct{}, 1),
		clusters:    map[string]versioned[record.Cluster]{},
		federations: map[string]versioned[record.Federation]{},
		names:       map[string]string{},
		marked:      map[string]serviceAt{},
		nodes:       map[string]*node{},
		named:       map[string]map[string]bool{},
		onCluster:   map[string]map[string]bool{},
		deleted:     map[string]versioned[record.Deleted]{},
		deletedOf:   map[string]map[string]bool{},
		custody:     map[string]*custody{},
		jobs:        newJobIndex(),
		jobsChanged: func(jobNews, []string, []string) {},
	}
}

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
	federations, clusters, shown := map[string]bool{}, map[string]bool{}, map[string]bool{}
	s.mu.Lock()
	keys, view := s.feed.Take()
	for _, key := range keys {
		kv, ok := view.KV(key)
		ref := record.ParseKey(key)
		trouble := s.trouble(ref.Cluster)
		s.apply(key, kv, ok, federations, clusters)
		if ref.Cluster != "" && s.departing(ref.Cluster) {
			s.departed(ref.Cluster)
		}
		if shownOf(ref.Kind) || ref.Kind == record.KindObservedCluster && s.trouble(ref.Cluster) != trouble {
			shown[ref.Cluster] = true
		}
	}
	s.revision = view.Revision()
	s.tellWaiters(federations, shown, s.formerly)
	s.formerly = nil
	if len(federations)+len(clusters) > 0 {
		close(s.changed)
		s.changed = make(chan struct{})
	}
	news := s.jobs.news
	s.jobs.news = jobNews{jobs: map[string]bool{}}
	if len(news.jobs) > 0 {
		s.watchers.tell(news.jobs)
	}
	s.mu.Unlock()
	if len(federations)+len(clusters) > 0 {
		s.touched(slices.Sorted(maps.Keys(federations)), slices.Sorted(maps.Keys(clusters)))
	}
	if len(federations)+len(clusters)+len(news.jobs) > 0 || news.room {
		s.jobsChanged(news, slices.Collect(maps.Keys(federations)), slices.Collect(maps.Keys(clusters)))
	}
}

// wait returns once the state is at least as new as revision.
func (s *state) wait(ctx context.Context, revision int64) error {
	s.mu.RLock()
	fresh := s.revision >= revision
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
func (s *state) read(fn func()) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	fn()
}

func (s *state) apply(key string, kv store.KV, exists bool, federations, clusters map[string]bool) {
	ref := record.ParseKey(key)
	if s.applyJob(ref, kv, exists) {
		return
	}
	switch ref.Kind {
	case record.KindMeta:
		if v, ok := decode[record.Meta](s, kv, exists); ok {
			s.meta = v
			s.minimum(v.Minimum)
			select {
			case s.metaChanged <- struct{}{}:
			default:
			}
		}
	case record.KindElapsed:
		if e, err := store.Decode[record.Elapsed](kv); exists && err == nil {
			s.elapsed.saw(e, s.now())
		}
	case record.KindFence:
		s.fence = kv.ModRevision
		clusters[""] = true
	case record.KindCluster:
		s.registrations++
		old := s.clusters[ref.Cluster].rec
		set(s, s.clusters, ref.Cluster, kv, exists)
		if now := s.clusters[ref.Cluster].rec; now != nil && (old == nil || old.UID != now.UID || old.Revoked != nil && now.Revoked == nil) {
			s.forgiven(ref.Cluster)
		}
		clusters[ref.Cluster] = true
	case record.KindName:
		delete(s.names, key)
		if v, ok := decode[record.Name](s, kv, exists); ok {
			s.names[key] = v.UID
		}
	case record.KindDeleted:
		if old, ok := s.deleted[ref.Name]; ok {
			mark(s.deletedOf, old.rec.ClusterID+"/"+old.rec.ServiceName, ref.Name, false)
		}
		set(s, s.deleted, ref.Name, kv, exists)
		if d, ok := s.deleted[ref.Name]; ok {
			mark(s.deletedOf, d.rec.ClusterID+"/"+d.rec.ServiceName, ref.Name, true)
		}
	case record.KindFederation:
		s.applyFederation(ref.Name, kv, exists)
		federations[ref.Name] = true
	case record.KindSession, record.KindObservedCluster, record.KindDesiredCluster:
		n := s.node(ref.Cluster)
		if ref.Kind == record.KindSession && !exists && n.session.rec != nil {
			s.ended(ref.Cluster)
		}
		n.session = one(s, n.session, ref.Kind == record.KindSession, kv, exists)
		n.self = one(s, n.self, ref.Kind == record.KindObservedCluster, kv, exists)
		if ref.Kind == record.KindDesiredCluster {
			s.registrations++
		}
		n.desiredSelf = one(s, n.desiredSelf, ref.Kind == record.KindDesiredCluster, kv, exists)
		clusters[ref.Cluster] = true
	case record.KindDesiredService:
		n := s.node(ref.Cluster)
		if old, ok := n.desired[ref.Name]; ok {
			federations[old.rec.Federation] = true
			delete(s.marked, old.rec.Mark)
		}
		set(s, n.desired, ref.Name, kv, exists)
		if now, ok := n.desired[ref.Name]; ok {
			federations[now.rec.Federation] = true
			s.marked[now.rec.Mark] = serviceAt{ref.Cluster, ref.Name}
		}
	case record.KindReading:
		if exists {
			s.readToken(key)
		}
	case record.KindAsk:
		set(s, s.node(ref.Cluster).asks, ref.Name, kv, exists)
		clusters[ref.Cluster] = true
	case record.KindShown:
		set(s, s.node(ref.Cluster).shown, ref.Name, kv, exists)
		clusters[ref.Cluster] = true
	case record.KindHold, record.KindHolding, record.KindWant, record.KindGrant, record.KindTokenAsk, record.KindGranted:
		s.applyToken(ref, kv, exists)
		federations[ref.Name] = true
	case record.KindObservedService:
		n := s.node(ref.Cluster)
		s.setObserved(n, ref.Name, kv, exists)
		if d, ok := n.desired[ref.Name]; ok {
			federations[d.rec.Federation] = true
			if _, known := s.deleted[d.rec.UID]; known {
				clusters[ref.Cluster] = true
			}
		}
	}
}

func (s *state) applyFederation(uid string, kv store.KV, exists bool) {
	if old, ok := s.federations[uid]; ok {
		for _, m := range membersOf(old.rec) {
			mark(s.onCluster, m.ClusterID, uid, false)
			if s.departing(m.ClusterID) {
				s.departed(m.ClusterID)
			}
		}
		for _, m := range slices.Concat(old.rec.Members, old.rec.Leaving) {
			mark(s.named, m.ServiceName, uid, false)
			s.formerly = append(s.formerly, m.ServiceName)
		}
	}
	set(s, s.federations, uid, kv, exists)
	if f, ok := s.federations[uid]; ok {
		for _, m := range membersOf(f.rec) {
			mark(s.onCluster, m.ClusterID, uid, true)
		}
		for _, m := range slices.Concat(f.rec.Members, f.rec.Leaving) {
			mark(s.named, m.ServiceName, uid, true)
		}
	}
}

// node gives the tree of a cluster, made at need.
func (s *state) node(cluster string) *node {
	n := s.nodes[cluster]
	if n == nil {
		n = &node{
			desired: map[string]versioned[record.Desired]{}, observed: map[string]versioned[record.Observed]{},
			asks: map[string]versioned[record.Ask]{}, shown: map[string]versioned[record.Shown]{},
			assignments: map[attemptID]versioned[record.Assignment]{}, reports: map[attemptID]versioned[record.JobReport]{},
			offers: map[string]versioned[record.Offer]{}, answers: map[string]versioned[record.OfferAnswer]{},
		}
		s.nodes[cluster] = n
	}
	return n
}

// epoch is the present one as records name it. It must be called inside read.
func (s *state) epoch() string {
	if s.meta == nil {
		return ""
	}
	return s.meta.Word()
}

// alive says whether the cluster's syncer holds a session.
func (s *state) alive(cluster string) bool {
	n := s.nodes[cluster]
	return n != nil && n.session.rec != nil
}

func (s *state) desired(cluster, service string) versioned[record.Desired] {
	if n := s.nodes[cluster]; n != nil {
		return n.desired[service]
	}
	return versioned[record.Desired]{}
}

func (s *state) observed(cluster, service string) versioned[record.Observed] {
	if n := s.nodes[cluster]; n != nil {
		return n.observed[service]
	}
	return versioned[record.Observed]{}
}

func decode[T any](s *state, kv store.KV, exists bool) (*T, bool) {
	if !exists {
		return nil, false
	}
	v, err := store.Decode[T](kv)
	if err == nil {
		if wrong := withinBounds(v, len(kv.Value)); wrong != nil {
			err = &store.CorruptError{Key: kv.Key, Err: wrong}
		}
	}
	if err != nil {
		s.corrupt(err)
		return nil, false
	}
	if word := record.Strange(v); word != "" {
		s.strange(kv.Key, word)
	}
	return v, true
}

// set keeps what cannot be read as absent: a corrupt record orders nothing.
func set[K comparable, T any](s *state, m map[K]versioned[T], key K, kv store.KV, exists bool) {
	if v, ok := decode[T](s, kv, exists); ok {
		m[key] = versioned[T]{rec: v, rev: kv.ModRevision}
		return
	}
	delete(m, key)
}

func one[T any](s *state, old versioned[T], mine bool, kv store.KV, exists bool) versioned[T] {
	if !mine {
		return old
	}
	if v, ok := decode[T](s, kv, exists); ok {
		return versioned[T]{rec: v, rev: kv.ModRevision}
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
