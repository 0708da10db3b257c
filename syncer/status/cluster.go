package status

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/oscarfed/oscarfed/api/oscar"
	"github.com/oscarfed/oscarfed/store"
	"github.com/oscarfed/oscarfed/store/record"
	"github.com/oscarfed/oscarfed/syncer/answers"
	"github.com/oscarfed/oscarfed/syncer/kube"
)

// ReportCluster writes observed/cluster when something in it changed: what OSCAR
// says of itself, the write queue, and the orphans of a list. before and after
// are the mirror before and after that list. With a failure of the list, or of
// what else is asked, what was known stays and the reason says so: others need
// the recipient also while OSCAR is away.
func (s *Status) ReportCluster(ctx context.Context, before, after *store.MirrorView, list *answers.Listing, failure error) error {
	fill, err := whatWasKnown, failure
	if err == nil {
		fill, err = s.askCluster(ctx)
	}
	reported := func() {}
	if list != nil && err == nil {
		orphans := s.orphansOf(before, after, list)
		s.orphanGauge.Set(float64(len(orphans)))
		ask := fill
		// One that was found before and after a deletion is told anew, of a list that began after it.
		deletions := s.writes.Deletions()
		deleting := deletions != s.deletions
		again := deleting || s.deleting
		reported = func() { s.deletions, s.deleting = deletions, deleting }
		// What the list is compared with is of the epoch before it, at the latest.
		self := s.session.DesiredCluster(before)
		fill = func(c *record.ObservedCluster) {
			ask(c)
			switch {
			case len(orphans) == 0:
				c.OrphansAt = 0
			case again || c.OrphansAt == 0 || !slices.Equal(orphans, c.Orphans) || self != nil && c.Epoch != self.Word():
				c.OrphansAt = before.Revision()
			}
			c.Orphans = orphans
			// One that is gone has no Jobs, either.
			c.Unlisted = slices.DeleteFunc(c.Unlisted, func(u record.Unlisted) bool { return list.Services[u.ServiceName] == nil })
			if self != nil {
				c.Epoch = self.Word()
			}
		}
	}
	written := s.writeCluster(ctx, fill)
	if written == nil {
		reported()
	}
	return errors.Join(err, written)
}

// writeCluster writes observed/cluster with what fill enters, and how the cluster stands.
func (s *Status) writeCluster(ctx context.Context, fill func(*record.ObservedCluster)) error {
	queue := int64(s.writes.Backlog()/time.Minute) * 60
	key, clusterKey := record.ObservedClusterKey(s.session.ID), record.DesiredClusterKey(s.session.ID)
	update := store.Update{
		Keys: []string{s.session.Lease.Key(), key, clusterKey},
		Build: func(read store.View, tx *store.Txn) error {
			self, err := s.session.Serves(read.KV(clusterKey))
			if err != nil {
				return err
			}
			tx.ExpectSession(s.session.Lease)
			tx.Expect(clusterKey)
			next := &record.ObservedCluster{}
			if kv, ok := read.KV(key); ok {
				if known, err := store.Decode[record.ObservedCluster](kv); err == nil {
					next = known
				}
			}
			next.V, next.Recipient, next.SharedKeys, next.QueueS = record.Version, s.session.Identity.Recipient(), true, queue
			next.InDoubt = s.writes.DoubtListName()
			fill(next)
			s.enterCondition(next, self)
			tx.Put(key, next)
			return nil
		},
	}
	// Only this session writes the report. Once the mirror knows its last one, a full compare reads
	// nothing of etcd when nothing has changed. A mirror that is late is met by the next probe.
	if known := s.session.Mirror.Snapshot(); known.Revision() >= s.reported.Load() {
		update.From, update.Followed = known.Guess(key, clusterKey), true
	}
	result, err := s.session.Store.Update(ctx, update)
	if err == nil && result.Written {
		s.reported.Store(result.Revision)
	}
	s.session.LoseIfOver(err)
	return err
}

// whatWasKnown changes nothing, so that the values of the last report stay.
func whatWasKnown(*record.ObservedCluster) {}

// askCluster asks OSCAR and Kubernetes for their identities, and returns what is to be
// entered. With an error that is whatWasKnown.
func (s *Status) askCluster(ctx context.Context) (func(*record.ObservedCluster), error) {
	info, _, err := s.answers.Infos.Get(ctx, s.session.Now().Add(-answers.InfoAge))
	if err != nil {
		return whatWasKnown, err
	}
	storage, _, err := s.answers.Storages.Get(ctx, s.session.Now())
	if err != nil {
		return whatWasKnown, err
	}
	uid, asked := s.kube.SystemUID(ctx)
	if asked != nil && !errors.Is(asked, kube.ErrAbsent) {
		s.session.Log.Warn("Kubernetes does not say which cluster it is", "error", asked)
	}
	s.askRights(ctx)
	denied := s.denied
	id := ""
	if !s.cfg.SharedMinIO {
		id = s.answers.OSCARID(ctx)
	}
	return func(c *record.ObservedCluster) {
		if id != "" || s.cfg.SharedMinIO {
			c.OscarID = id // else what was known stays
		}
		c.OscarVersion, c.MinioEndpoint, c.MinioRegion, c.MinioVerify = info.Version, storage.Endpoint, storage.Region, storage.Verify
		c.Denied = denied
		if asked == nil || errors.Is(asked, kube.ErrAbsent) {
			c.KubeSystemUID = uid // else what was known stays
		}
	}, nil
}

// rightsAge is how old an answer about the syncer's rights may be: it is some twenty requests.
const rightsAge = 10 * time.Minute

// askRights finds out which rights in Kubernetes lack. What cannot be asked stays as it was.
func (s *Status) askRights(ctx context.Context) {
	now := s.session.Now()
	if !s.deniedAt.IsZero() && now.Sub(s.deniedAt) < rightsAge {
		return
	}
	denied, err := s.kube.Denied(ctx)
	switch {
	case errors.Is(err, kube.ErrAbsent):
	case err != nil:
		s.session.Log.Warn("Kubernetes does not say which rights the syncer has", "error", err)
		return
	case len(denied) > 0 && !slices.Equal(denied, s.denied):
		s.session.Log.Warn("the syncer lacks rights in Kubernetes", "rights", denied)
	}
	s.denied, s.deniedAt = denied, now
}

// maxOrphans bounds the record: the rest is only in the metric.
const maxOrphans = 100

// orphansOf are services with our marks that no desired record speaks of, neither
// before nor after the list: one that was just made or just deleted is none.
// They are held: listed here and left alone.
func (s *Status) orphansOf(before, after *store.MirrorView, list *answers.Listing) []record.Orphan {
	var out []record.Orphan
	for _, name := range slices.Sorted(maps.Keys(list.Services)) {
		service := list.Services[name]
		uid := service.Annotations[oscar.AnnotationUID]
		if uid == "" || len(out) == maxOrphans || foreignMarks(service.Annotations) {
			continue
		}
		key := record.DesiredServiceKey(s.session.ID, name)
		if _, known := before.KV(key); known {
			continue
		}
		if _, known := after.KV(key); known {
			continue
		}
		generation, err := strconv.ParseInt(service.Annotations[oscar.AnnotationGeneration], 10, 64)
		if err != nil {
			generation = 0
		}
		out = append(out, record.Orphan{ServiceName: name, UID: uid, Generation: generation, Epoch: service.Annotations[oscar.AnnotationEpoch], Federation: service.Annotations[oscar.AnnotationFederation],
			ClusterID: service.ClusterID,
			Mark:      record.Mark(service.Token), Settings: service.Annotations[oscar.AnnotationSettings],
			Reason: record.ReasonAheadOfDesired})
	}
	return out
}

// maxMark bounds our annotations in bytes; AnnotationSettings is the longest.
const maxMark = 4 << 10

// foreignMarks says that annotations which are called as ours are longer than ours: every
// user that may write to the OSCAR may have put them there.
func foreignMarks(annotations map[string]string) bool {
	return slices.ContainsFunc([]string{
		oscar.AnnotationUID, oscar.AnnotationEpoch, oscar.AnnotationFederation, oscar.AnnotationSettings,
	}, func(key string) bool { return len(annotations[key]) > maxMark })
}
