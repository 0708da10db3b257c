package jobs

import (
	"bytes"
	"sync"
	"time"

	"github.com/oscarfed/oscarfed/store"
	"github.com/oscarfed/oscarfed/store/record"
	"github.com/oscarfed/oscarfed/syncer/session"
)

// clusterView is how the cluster and its services stand in one view.
type clusterView struct {
	session.Standing
	now time.Time
	// revision of the desired cluster.
	revision int64
	jobs     *Jobs
	view     *store.MirrorView
	services map[string]replica
}

// replica is a replica that jobs may be assigned to.
type replica struct {
	desired  *record.Desired
	revision int64
	observed *record.Observed
}

func (j *Jobs) view(view *store.MirrorView) (*clusterView, error) {
	kv, ok := view.KV(record.DesiredClusterKey(j.session.ID))
	standing, err := j.session.Standing(kv, ok)
	if err != nil {
		return nil, err
	}
	return &clusterView{
		Standing: standing, now: j.session.Now(), revision: kv.ModRevision,
		jobs: j, view: view, services: map[string]replica{},
	}, nil
}

// of is the replica of a service name.
func (s *clusterView) of(service string) replica {
	if r, known := s.services[service]; known {
		return r
	}
	r := s.jobs.replicaIn(s.view, service)
	s.services[service] = r
	return r
}

// replicas remembers how services were decoded: every round looks at them again.
type replicas struct {
	mu sync.Mutex
	of map[string]decodedReplica
}

type decodedReplica struct {
	replica
	// from are the bytes of both records: a restored store may have others at the same
	// revisions.
	from [2][]byte
}

// replicaIn is how a service stands in a view. Its records must not be changed.
func (j *Jobs) replicaIn(view *store.MirrorView, service string) replica {
	desired, ok := view.KV(record.DesiredServiceKey(j.session.ID, service))
	j.replicas.mu.Lock()
	defer j.replicas.mu.Unlock()
	if !ok {
		delete(j.replicas.of, service)
		return replica{}
	}
	observed, _ := view.KV(record.ObservedServiceKey(j.session.ID, service))
	known := j.replicas.of[service]
	if known.revision == desired.ModRevision && bytes.Equal(known.from[0], desired.Value) && bytes.Equal(known.from[1], observed.Value) {
		return known.replica
	}
	want, err := store.Decode[record.Desired](desired)
	if err != nil {
		return replica{}
	}
	r := replica{desired: want, revision: desired.ModRevision, observed: j.session.Observed(view, service, want.UID)}
	if j.replicas.of == nil {
		j.replicas.of = map[string]decodedReplica{}
	}
	j.replicas.of[service] = decodedReplica{r, [2][]byte{desired.Value, observed.Value}}
	return r
}

// state says how a life of the replica stands.
func (r replica) state(uid string) replicaState {
	switch {
	case r.desired == nil, r.desired.UID != uid, r.desired.Tombstone():
		return replicaGone
	case r.desired.Intent != record.IntentApply || r.observed == nil || r.observed.Applied() == 0:
		return replicaWaits
	case r.observed.Phase == record.PhaseWedged, r.observed.Phase == record.PhaseDeleted:
		return replicaWaits
	}
	return replicaReady
}
