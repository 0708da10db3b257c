package offers

import (
	"context"
	"errors"
	"log/slog"
	"path/filepath"
	"testing"
	"time"

	"github.com/oscarfed/oscarfed/store"
	"github.com/oscarfed/oscarfed/store/record"
	"github.com/oscarfed/oscarfed/store/storetest/virtual"
	"github.com/oscarfed/oscarfed/syncer/kube"
	"github.com/oscarfed/oscarfed/syncer/session"
	"github.com/oscarfed/oscarfed/test/await"
)

// oneJob is a Kubernetes with one Job.
type oneJob struct {
	kube.Absent

	job *kube.Job
}

func (k oneJob) Job(context.Context, kube.JobKey) (*kube.Job, error) { return copyJob(k.job), nil }

// TestAnAnswerOfARestoredStoreIsNotTakenBeforeItIsListed: in the lost history the Job was offered once more, and another
// member has it. To give it back, as the backup says, would start it a second time.
func TestAnAnswerOfARestoredStoreIsNotTakenBeforeItIsListed(t *testing.T) {
	await.InVirtualTime(t, func(t *testing.T) {
		const cluster, id = "a", "j1"
		key := kube.JobKey{Namespace: "n", Name: "its-name"}
		put := func(st *store.Store, key string, rec any) {
			t.Helper()
			if _, err := st.Update(t.Context(), store.Update{Build: func(_ store.View, tx *store.Txn) error {
				tx.Put(key, rec)
				tx.Touch(key)
				return nil
			}}); err != nil {
				t.Fatal(err)
			}
		}
		answer := func(word record.OfferWord) record.OfferAnswer {
			return record.OfferAnswer{V: record.Version, Answer: word, AnsweredAt: record.At(time.Now())}
		}
		backup := func() *store.Store {
			st := virtual.Open(t)
			put(st, record.DesiredClusterKey(cluster), record.DesiredCluster{V: record.Version, UID: "u", State: record.ClusterActive})
			put(st, record.OfferKey(cluster, id), record.Offer{V: record.Version, State: record.OfferFrozen, Service: "s", Namespace: key.Namespace, Name: key.Name})
			put(st, record.OfferAnswerKey(cluster, id), answer(record.OfferRestore))
			return st
		}
		lost, restored := backup(), backup()
		put(lost, record.OfferAnswerKey(cluster, id), answer(record.OfferFreeze))

		mirror := lost.NewMirror(store.MirrorConfig{Prefixes: []string{record.DesiredPrefix(cluster), record.ObservedPrefix(cluster)}})
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { defer close(done); _ = mirror.Run(ctx) }()
		defer func() { cancel(); <-done }()
		<-mirror.Synced()
		lease, err := restored.OpenSession(t.Context(), store.SessionConfig{Key: record.SessionKey(cluster), Record: 1})
		if err != nil {
			t.Fatal(err)
		}
		defer lease.Close(t.Context()) //nolint:errcheck // the test has ended

		memory := session.MemoryFile(filepath.Join(t.TempDir(), "uid"))
		if err := memory.Save("u"); err != nil {
			t.Fatal(err)
		}
		c := &session.Cluster{ID: cluster, Store: restored, Mirror: mirror, Memory: memory, Forms: record.OwnForms(), Now: time.Now, Log: slog.New(slog.DiscardHandler)}
		if err := c.Enter(t.Context(), func(bool) {}); err != nil {
			t.Fatal(err)
		}
		now := &session.Session{Cluster: c, Lease: lease, TTL: 30 * time.Second}
		o := New(now, Config{}, oneJob{job: waitingJob(func(j *kube.Job) { j.Mark = &kube.JobMark{Job: id, State: kube.MarkHolding} })}, nil)
		o.index = newIndex(mirror)
		defer o.index.close()
		if v, err := o.examine(t.Context(), key, id); !errors.Is(err, session.ErrStale) {
			t.Errorf("it is decided on %+v, %v", v, err)
		}
	})
}
