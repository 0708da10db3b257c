package syncer

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"strconv"
	"time"

	oscarapi "github.com/oscarfed/oscarfed/api/oscar"
	"github.com/oscarfed/oscarfed/store"
	"github.com/oscarfed/oscarfed/store/record"
	"github.com/oscarfed/oscarfed/syncer/kube"
	"github.com/oscarfed/oscarfed/syncer/oscar"
)

// reportCluster writes observed/cluster when something in it changed: what OSCAR
// says of itself, the write queue, and the orphans of a list. before and after
// are the mirror before and after that list.
func (t *term) reportCluster(ctx context.Context, before, after *store.MirrorView, list *listing) error {
	info, _, err := t.infos.get(ctx, time.Now().Add(-infoAge))
	if err != nil {
		return err
	}
	storage, err := t.cfg.OSCAR.Storage(ctx)
	if err != nil {
		return err
	}
	uid, err := t.cfg.Kube.SystemUID(ctx)
	if err != nil && !errors.Is(err, kube.ErrAbsent) {
		return err
	}
	orphans := t.orphans(before, after, list)
	t.metrics.orphans.Set(float64(len(orphans)))
	next := record.ObservedCluster{
		V:             record.Version,
		Recipient:     t.cfg.Identity.Recipient(),
		OscarVersion:  info.Version,
		MinioEndpoint: storage.Endpoint,
		MinioRegion:   storage.Region,
		KubeSystemUID: uid,
		QueueS:        int64(t.ledger.backlog(t.writes.Len())/time.Minute) * 60,
		Orphans:       orphans,
	}
	key := record.ObservedClusterKey(t.cfg.ClusterID)
	_, err = t.cfg.Store.Update(ctx, store.Update{
		Keys: []string{t.session.Key(), key},
		Build: func(_ store.View, tx *store.Txn) error {
			tx.ExpectSession(t.session)
			tx.Put(key, next)
			return nil
		},
	})
	if errors.Is(err, store.ErrSessionLost) {
		t.lose(errSessionLost)
	}
	return err
}

// maxOrphans bounds the record: the rest is only in the metric.
const maxOrphans = 100

// orphans are services with our marks that no desired record speaks of, neither
// before nor after the list: one that was just made or just deleted is none.
// They are held: listed here and left alone.
func (t *term) orphans(before, after *store.MirrorView, list *listing) []record.Orphan {
	var out []record.Orphan
	for _, name := range slices.Sorted(maps.Keys(list.services)) {
		service := list.services[name]
		uid := service.Annotations[oscarapi.AnnotationUID]
		if uid == "" || len(out) == maxOrphans {
			continue
		}
		key := record.DesiredServiceKey(t.cfg.ClusterID, name)
		if _, known := before.KV(key); known {
			continue
		}
		if _, known := after.KV(key); known {
			continue
		}
		generation, err := strconv.ParseInt(service.Annotations[oscarapi.AnnotationGeneration], 10, 64)
		if err != nil {
			generation = 0
		}
		out = append(out, record.Orphan{ServiceName: name, UID: uid, Generation: generation, Reason: record.ReasonAheadOfDesired})
	}
	return out
}

// bucketsOf are the buckets that a service of OSCAR names.
func bucketsOf(service *oscar.Service) ([]string, error) {
	var s oscarapi.Service
	if err := json.Unmarshal(service.JSON, &s); err != nil {
		return nil, err
	}
	return oscarapi.Buckets(&s), nil
}
