package originstorage

import (
	"context"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/oscarfed/oscarfed/internal/worker"
	"github.com/oscarfed/oscarfed/store"
	"github.com/oscarfed/oscarfed/store/record"
	"github.com/oscarfed/oscarfed/syncer/answers"
	"github.com/oscarfed/oscarfed/syncer/definition"
)

const (
	// lookers is how many services have their storage looked at together: many, since one whose origin does not
	// answer keeps a place for half a minute.
	lookers = 64
	// lookSpread is over what time the first looks of a session are spread.
	lookSpread = 5 * time.Second
	// lookRest is the shortest pause between two looks because something has failed.
	lookRest = 10 * time.Second
	// lookTimeout ends one look.
	lookTimeout = time.Minute
	// lookWhileJobs is the longest pause between two looks while jobs run there.
	lookWhileJobs = 15 * time.Second
)

// How old keys are that may be the cause of a failure: when OSCAR has refused a job, and when a
// job has failed, which may have many causes.
const (
	RefusedAge = time.Minute
	FailedAge  = 10 * time.Minute
)

// looks are the services whose storage is that of their origin: whether it can be used is
// looked at now and then, and reported when the answer changes.
type looks struct {
	queue *worker.Worker[string]

	mu sync.Mutex
	// known are those that are looked at, last when one was.
	known map[string]bool
	last  map[string]time.Time
	// found is what looks have found of the origin's MinIO.
	found map[string]MinIO
}

// MinIO is what looks have found of a MinIO: readable is when the last one ended that it
// answered to, and dead when the last one began that it did not. Zero for never.
type MinIO struct{ Readable, Dead time.Time }

func newLooks() *looks {
	return &looks{known: map[string]bool{}, last: map[string]time.Time{}, found: map[string]MinIO{}}
}

// now looks at a service at once.
func (l *looks) now(service string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.known[service] = true
	l.queue.Add(service)
}

// ensure has a service looked at soon that is not looked at yet.
func (l *looks) ensure(service string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.known[service] {
		l.known[service] = true
		l.queue.AddAfter(service, rand.N(lookSpread)) //nolint:gosec // it spreads load
	}
}

// soon looks at a service because something has failed there.
func (l *looks) soon(service string, now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.known[service] {
		l.queue.AddAfter(service, max(l.last[service].Add(lookRest).Sub(now), 0))
	}
}

func (l *looks) drop(service string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.known, service)
	delete(l.last, service)
	delete(l.found, service)
}

// noteMinio notes how a MinIO answered to a look from began to ended; what it answered to
// others may be aliveAge older.
func (l *looks) noteMinio(service string, began, ended time.Time, dead bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	f := l.found[service]
	if dead {
		f.Dead = began.Add(-aliveAge)
	} else {
		f.Readable = ended
	}
	l.found[service] = f
}

func (l *looks) minio(service string) MinIO {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.found[service]
}

func (l *looks) looked(service string, now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.last[service] = now
}

// look looks at the storage of one service, and says when to look again.
func (t *Watch) look(ctx context.Context, service string) (time.Duration, error) {
	again, err := t.lookAtOrigin(ctx, service)
	t.looks.looked(service, t.session.Now())
	switch {
	case err != nil:
		return 0, err
	case again <= 0:
		t.looks.drop(service)
	case again > lookWhileJobs && t.busy(service):
		again = lookWhileJobs
	}
	return max(again, 0), nil
}

// lookAtOrigin reports whether a service can use the storage of its origin. It gives when
// to look again; 0 for never.
func (t *Watch) lookAtOrigin(ctx context.Context, service string) (time.Duration, error) {
	ctx, cancel := context.WithTimeout(ctx, lookTimeout)
	defer cancel()
	d := t.session.Desired(service)
	if d == nil || d.Intent != record.IntentApply {
		return 0, nil
	}
	def, err := t.process.definitions.Open(ctx, service, d)
	if err != nil {
		return 0, err
	}
	o := t.session.Observed(t.session.Mirror.Snapshot(), service, d.UID)
	if def == nil || def.Storage == nil || o == nil || o.Storage != def.Storage.Mark() {
		return 0, nil // its report queues it when it stands
	}
	_, noKeys := t.process.ownersKeys(ctx, d, def.Storage)
	if noKeys != nil && ctx.Err() != nil {
		return 0, context.Cause(ctx) // nothing is known
	}
	var dead error
	if noKeys == nil {
		began := t.session.Now()
		dead = t.alive.get(ctx, def.Storage.MinioEndpoint, def.Storage.MinioVerify)
		if ctx.Err() != nil {
			return 0, context.Cause(ctx)
		}
		t.looks.noteMinio(service, began, t.session.Now(), dead != nil)
	}
	says := verdict(noKeys, dead)
	if err := t.reportInputs(ctx, service, d.UID, o.Storage, says); err != nil {
		return 0, err
	}
	return lookPause(t.period, says.Readable, rand.Float64()), nil //nolint:gosec // it spreads load
}

// reportInputs writes what a look has found, if it is news. What else the report says
// stays as it is.
func (t *Watch) reportInputs(ctx context.Context, service, uid, storage string, says record.Inputs) error {
	desiredKey, key := record.DesiredServiceKey(t.session.ID, service), record.ObservedServiceKey(t.session.ID, service)
	says.At = record.At(t.session.Now())
	result, err := t.session.Store.Update(ctx, store.Update{
		Keys: []string{t.session.Lease.Key(), desiredKey, key},
		Build: func(read store.View, tx *store.Txn) error {
			kv, ok := read.KV(key)
			if !ok {
				return nil
			}
			o := t.session.DecodeObserved(kv, uid)
			if o == nil || o.Storage != storage || o.Phase == record.PhaseDeleted {
				return nil
			}
			if was := o.Inputs; was != nil && was.Readable == says.Readable && was.Reason == says.Reason && was.Message == says.Message {
				return nil
			}
			desired, ok := read.KV(desiredKey)
			if !ok || desired.ModRevision != o.DesiredRevision {
				return nil // the report about what is desired now comes first
			}
			next := *o
			next.Inputs = &says
			tx.ExpectSession(t.session.Lease)
			tx.Expect(desiredKey)
			tx.Expect(key)
			tx.Put(key, &next)
			return nil
		},
	})
	if err == nil && result.Written {
		t.session.Log.Info("reported the storage of the origin", "service", service, "readable", says.Readable, "reason", says.Reason, "message", says.Message)
	}
	return err
}

// Watch has the storage of a service looked at from time to time, once it stands as desired.
func (t *Watch) Watch(service string, d *record.Desired, def *definition.Definition, o *record.Observed) {
	if def != nil && def.Storage != nil && d.Intent == record.IntentApply && o != nil && o.Storage == def.Storage.Mark() {
		t.looks.ensure(service)
	}
}

// LookNow has the storage of a service looked at without delay.
func (t *Watch) LookNow(service string) { t.looks.now(service) }

// LookSoon has the storage of a service looked at soon, if it is watched.
func (t *Watch) LookSoon(service string) { t.looks.soon(service, t.session.Now()) }

// MinIO is what looks have found of the MinIO that a service uses.
func (t *Watch) MinIO(service string) MinIO { return t.looks.minio(service) }

// ForgetKeys forgets the keys of services that are gone.
func (t *Watch) ForgetKeys(view *store.MirrorView) {
	used := map[KeysOf]bool{}
	t.process.definitions.EachWithOriginStorage(func(service string, def *definition.Definition) {
		kv, ok := view.KV(record.DesiredServiceKey(t.session.ID, service))
		if !ok {
			return
		}
		d, err := store.Decode[record.Desired](kv)
		if err != nil || d.UID != def.UID {
			return
		}
		used[KeysFor(d, def.Storage)] = true
	})
	t.process.keys.keep(used)
}

// Failed looks anew at the storage of a service where something has failed. Keys
// that are as old as age may be the cause.
func (t *Watch) Failed(service string, age time.Duration) {
	if !t.enabled() {
		return
	}
	d := t.session.Desired(service)
	if d == nil {
		return
	}
	if def := t.process.definitions.Get(d.Spec); def != nil && def.Storage != nil {
		t.process.keys.doubt(KeysFor(d, def.Storage), age)
		t.looks.soon(service, t.session.Now())
	}
}

// minios are the answers of MinIOs that many services ask about at the same time.
type minios struct {
	now func() time.Time
	ask func(ctx context.Context, endpoint string, verify bool) error
	run context.Context

	mu sync.Mutex
	of map[minioAt]*answers.Shared[struct{}]
}

type minioAt struct {
	endpoint string
	verify   bool
}

// aliveAge is how old such an answer may be.
const aliveAge = 2 * time.Second

func newMinios(run context.Context, now func() time.Time, ask func(context.Context, string, bool) error) *minios {
	return &minios{ask: ask, now: now, run: run, of: map[minioAt]*answers.Shared[struct{}]{}}
}

func (m *minios) get(ctx context.Context, endpoint string, verify bool) error {
	m.mu.Lock()
	at := minioAt{endpoint, verify}
	s := m.of[at]
	if s == nil {
		s = answers.NewShared(m.run, m.now, func(ctx context.Context) (struct{}, error) { return struct{}{}, m.ask(ctx, endpoint, verify) })
		m.of[at] = s
	}
	m.mu.Unlock()
	_, _, err := s.Get(ctx, m.now().Add(-aliveAge))
	return err
}

// wait returns when no call is under way; run must have ended.
func (m *minios) wait() {
	m.mu.Lock()
	all := slices.Collect(maps.Values(m.of))
	m.mu.Unlock()
	for _, s := range all {
		s.Wait()
	}
}
