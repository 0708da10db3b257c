package syncer

import (
	"time"

	"github.com/oscarfed/oscarfed/store"
	"github.com/oscarfed/oscarfed/store/record"
)

// jobStand is how the cluster and its services stand in one view.
type jobStand struct {
	now      time.Time
	stopped  bool
	epoch    string
	doubtful bool
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
	kv, ok := view.KV(record.DesiredClusterKey(t.cfg.ClusterID))
	c, err := t.serves(kv, ok)
	if err != nil {
		return nil, err
	}
	var v sight
	v.standing(t.Syncer, c)
	return &jobStand{
		now: time.Now(), stopped: v.stopped, epoch: v.epoch, doubtful: v.doubtful, revision: kv.ModRevision,
		term: t, view: view, services: map[string]jobReplica{},
	}, nil
}

// of is the replica of a service name.
func (s *jobStand) of(service string) jobReplica {
	if r, known := s.services[service]; known {
		return r
	}
	var r jobReplica
	if kv, ok := s.view.KV(record.DesiredServiceKey(s.term.cfg.ClusterID, service)); ok {
		if desired, err := store.Decode[record.Desired](kv); err == nil {
			r = jobReplica{desired: desired, revision: kv.ModRevision, observed: s.term.observedIn(s.view, service, desired.UID)}
		}
	}
	s.services[service] = r
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
