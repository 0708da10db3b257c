package syncer

import (
	"bytes"
	"sync"
	"time"

	"github.com/oscarfed/oscarfed/store"
	"github.com/oscarfed/oscarfed/store/record"
)

// jobStand is how the cluster and its services stand in one view.
type jobStand struct {
	now      time.Time
	stopped  bool
	epoch    string
	restored bool
	// revision of the desired cluster.
	revision int64
	term     *term
	view     *store.MirrorView
	services map[string]jobReplica
}

// jobReplica is a replica that jobs may be assigned to.
type jobReplica struct {
	desired  *record.Desired
	revision int64
	observed *record.Observed
}

func (t *term) stand(view *store.MirrorView) (*jobStand, error) {
	kv, ok := view.KV(record.DesiredClusterKey(t.session.ID))
	c, err := t.session.Serves(kv, ok)
	if err != nil {
		return nil, err
	}
	now := t.session.Standing(c)
	return &jobStand{
		now: t.session.Now(), stopped: now.Stopped, epoch: now.Epoch, restored: now.Restored, revision: kv.ModRevision,
		term: t, view: view, services: map[string]jobReplica{},
	}, nil
}

// of is the replica of a service name.
func (s *jobStand) of(service string) jobReplica {
	if r, known := s.services[service]; known {
		return r
	}
	r := s.term.replica(s.view, service)
	s.services[service] = r
	return r
}

// replicas remembers how services were decoded: every turn looks at them again.
type replicas struct {
	mu sync.Mutex
	of map[string]decodedReplica
}

type decodedReplica struct {
	jobReplica
	// from are the bytes of both records: a restored store may have others at the same
	// revisions.
	from [2][]byte
}

// replica is how a service stands in a view. Its records must not be changed.
func (t *term) replica(view *store.MirrorView, service string) jobReplica {
	desired, ok := view.KV(record.DesiredServiceKey(t.session.ID, service))
	t.replicas.mu.Lock()
	defer t.replicas.mu.Unlock()
	if !ok {
		delete(t.replicas.of, service)
		return jobReplica{}
	}
	observed, _ := view.KV(record.ObservedServiceKey(t.session.ID, service))
	known := t.replicas.of[service]
	if known.revision == desired.ModRevision && bytes.Equal(known.from[0], desired.Value) && bytes.Equal(known.from[1], observed.Value) {
		return known.jobReplica
	}
	want, err := store.Decode[record.Desired](desired)
	if err != nil {
		return jobReplica{}
	}
	r := jobReplica{desired: want, revision: desired.ModRevision, observed: t.session.Observed(view, service, want.UID)}
	if t.replicas.of == nil {
		t.replicas.of = map[string]decodedReplica{}
	}
	t.replicas.of[service] = decodedReplica{r, [2][]byte{desired.Value, observed.Value}}
	return r
}

// place says how a life of the replica stands.
func (r jobReplica) place(uid string) jobPlace {
	switch {
	case r.desired == nil, r.desired.UID != uid, r.desired.Tombstone():
		return placeGone
	case r.desired.Intent != record.IntentApply || r.observed == nil || r.observed.Applied() == 0:
		return placeWaits
	case r.observed.Phase == record.PhaseWedged, r.observed.Phase == record.PhaseDeleted:
		return placeWaits
	}
	return placeReady
}
