package services

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/oscarfed/oscarfed/internal/atomicfile"
	"github.com/oscarfed/oscarfed/store"
	"github.com/oscarfed/oscarfed/store/record"
	"github.com/oscarfed/oscarfed/syncer/session"
)

// A write is in doubt while it is under way, and after it was not answered, as long as it may take effect. A syncer that
// starts would have to assume one for each order without an outcome, since the one before it may have been killed in any
// of them. So a syncer keeps a list of the services with a write in doubt on its disk, and the name of that list in
// observed/cluster. One that finds the list of that name on its disk knows that no other syncer has written to this OSCAR
// since: it assumes no write to services that are not in it. Beside the list stands how far that syncer has seen etcd.

// DoubtList keeps one short text beyond the process.
type DoubtList interface {
	// Load gives what was saved last; nil when nothing was.
	Load() ([]byte, error)
	// Save returns when the text would survive the death of the process and the loss of power. After an error the text
	// before it may be there.
	Save(text []byte) error
}

// DoubtFile is a DoubtList in a file of this name.
type DoubtFile string

// maxDoubtFile bounds the file in bytes: some 10,000 names of services.
const maxDoubtFile = 1 << 20

// Load implements DoubtList. It removes what a Save that was killed has left.
func (f DoubtFile) Load() ([]byte, error) {
	_ = atomicfile.Sweep(string(f), time.Now().Add(-time.Minute)) // they do no harm
	info, err := os.Stat(string(f))
	switch {
	case errors.Is(err, os.ErrNotExist):
		return nil, nil
	case err != nil:
		return nil, err
	case info.Size() > maxDoubtFile:
		return nil, fmt.Errorf("%s has more than %d bytes", f, maxDoubtFile)
	}
	return os.ReadFile(string(f))
}

// Save implements DoubtList.
func (f DoubtFile) Save(text []byte) error { return atomicfile.Write(string(f), text, 0o600) }

// doubts is the list as it is written: it is read as if it was saved a moment ago.
type doubts struct {
	// Name is a random one of the process that writes the list.
	Name string `json:"name"`
	// Seen names the epoch, too: after a restore of etcd, the list's name there does not say who wrote to OSCAR last.
	session.Seen
	// Services says of each service with a write in doubt how many seconds ago the last one was sent. anyService stands for
	// each that is not named.
	Services map[string]int64 `json:"services,omitempty"`
}

// anyService is no name of a service.
const anyService = "*"

// inDoubt is the list of this process.
type inDoubt struct {
	late time.Duration

	mu sync.Mutex
	// disk is nil where there is none, or it has failed: then another process assumes everything.
	disk DoubtList
	// onDisk is what the disk has; nil where that is not known.
	onDisk *doubts
	// own is the list of this process without its services. Its name is empty without a disk.
	own doubts
	// writing is the service to which a write is under way, since a time; empty for none.
	writing      string
	writingSince time.Time
	// assumed says when an earlier process may have sent the last write to a service, or to anyService.
	assumed map[string]time.Time
	// quietFrom is when OSCAR has done what it may be at work on for an earlier process.
	quietFrom time.Time
}

// newInDoubt makes the list of this process; disk may be nil.
func newInDoubt(disk DoubtList, late time.Duration) *inDoubt {
	l := &inDoubt{disk: disk, late: late}
	if disk != nil {
		l.own.Name = uuid.NewString()
	}
	return l
}

// load gives the list that is on the disk; empty where there is none.
func (l *inDoubt) load() (doubts, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.onDisk != nil {
		return *l.onDisk, nil
	}
	if l.disk == nil {
		return doubts{}, nil
	}
	var found doubts
	text, err := l.disk.Load()
	if err == nil && text != nil {
		err = json.Unmarshal(text, &found)
	}
	if err != nil {
		return doubts{}, fmt.Errorf("the list of writes in doubt cannot be read, and each is assumed: %w", err)
	}
	l.onDisk = &found
	return found, nil
}

// begin begins a session at a time. before is the list on the disk, and last names that of the syncer that wrote to OSCAR
// before; it is empty when that is not known. ordered says that there are orders which that syncer may have carried out.
// begin returns when another process may have sent the last write to a service; false for none that matters.
func (l *inDoubt) begin(before doubts, last string, seen session.Seen, ordered bool, now time.Time) (sent func(service string) (time.Time, bool)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	known := last != "" && last == before.Name && before.Epoch == seen.Epoch
	l.own.Seen = seen
	if known && last == l.own.Name {
		return func(string) (time.Time, bool) { return time.Time{}, false } // this process has noted its own, and what it has assumed
	}
	l.assumed = map[string]time.Time{}
	switch {
	case known:
		for service, age := range before.Services {
			at := now.Add(-time.Duration(max(age, 0)) * time.Second)
			l.assumed[service] = at
			if until := at.Add(min(postTakes, l.late)); until.After(l.quietFrom) {
				l.quietFrom = until
			}
		}
	case ordered:
		l.assumed[anyService] = now
	}
	return func(service string) (time.Time, bool) { return l.assumes(service, now) }
}

// assumes says when an earlier process may have sent the last write to a service; false when it takes no effect any more.
func (l *inDoubt) assumes(service string, now time.Time) (time.Time, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	at := l.assumed[service]
	if other := l.assumed[anyService]; other.After(at) {
		at = other
	}
	return at, now.Before(at.Add(l.late))
}

// quiet waits until OSCAR has done what it may be at work on for an earlier process, whose writes and ours would disturb
// each other. It is false when ctx ends before.
func (l *inDoubt) quiet(ctx context.Context, now time.Time) bool {
	l.mu.Lock()
	wait := l.quietFrom.Sub(now)
	l.mu.Unlock()
	select {
	case <-ctx.Done():
		return false
	case <-time.After(wait):
		return true
	}
}

// name is that of the list; empty for none.
func (l *inDoubt) name() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.own.Name
}

// see notes how far the store was seen.
func (l *inDoubt) see(seen session.Seen) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.own.Seen = seen
}

// writes notes to which service a write is under way, since a time; empty for none.
func (l *inDoubt) writes(service string, since time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.writing, l.writingSince = service, since
}

// save saves the list with these services and when the last write to each was sent, with the one that is under way, and with
// those that are assumed. With an error there is no list from then on.
func (l *inDoubt) save(sent map[string]time.Time, now time.Time) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.disk == nil {
		return nil
	}
	next := l.own
	next.Services = map[string]int64{}
	underWay := map[string]time.Time{}
	if l.writing != "" {
		underWay[l.writing] = l.writingSince
	}
	for _, each := range []map[string]time.Time{sent, underWay, l.assumed} {
		for service, at := range each {
			age := int64(now.Sub(at) / time.Second)
			if before, ok := next.Services[service]; now.Before(at.Add(l.late)) && (!ok || age < before) {
				next.Services[service] = age
			}
		}
	}
	if l.onDisk != nil && l.onDisk.says(&next) {
		return nil
	}
	text, err := json.Marshal(next)
	if err == nil {
		err = l.disk.Save(append(text, '\n'))
	}
	if err != nil {
		l.disk, l.onDisk, l.own.Name = nil, nil, ""
		return fmt.Errorf("the list of writes in doubt cannot be saved, and the next syncer assumes each: %w", err)
	}
	l.onDisk = &next
	return nil
}

// staleAge is how old the ages of a list may become, in seconds.
const staleAge = 30

// says is true where a list has what another one has, with ages that are a little younger.
func (d *doubts) says(next *doubts) bool {
	if d.Name != next.Name || d.Seen != next.Seen || len(d.Services) != len(next.Services) {
		return false
	}
	for service, age := range next.Services {
		before, ok := d.Services[service]
		if !ok || before > age || age-before > staleAge {
			return false
		}
	}
	return true
}

// Begin begins a session: it assumes what an earlier process may have sent to OSCAR, and has observed/cluster name the
// list of this one, before anything is written.
func (p *Process) Begin(ctx context.Context, now *session.Session, view *store.MirrorView) error {
	before, err := p.inDoubt.load()
	now.Recall(before.Seen, view)
	last, seen, told := "", now.Seen(view), now.ObservedCluster(view)
	switch registered := now.DesiredCluster(view); {
	case registered == nil:
	case now.Restored(registered):
		seen = before.Seen // which the next process has to know, too
	case told != nil:
		last = told.InDoubt
	}
	ordered := false
	for range view.Prefix(record.DesiredServicesPrefix(now.ID)) {
		ordered = true
		break
	}
	p.assumeForPredecessors(now, view, p.inDoubt.begin(before, last, seen, ordered, now.Started))
	if err := errors.Join(err, p.inDoubt.save(p.writes.inDoubt(now.Started), now.Started)); err != nil {
		now.Log.Error("what was being written to OSCAR is not known", "error", err)
	}
	if told == nil || told.InDoubt == p.inDoubt.name() {
		return nil // without a report, the first one names it: until then the next syncer assumes everything
	}
	return p.tellList(ctx, now)
}

// tellList has observed/cluster name the list of this process.
func (p *Process) tellList(ctx context.Context, now *session.Session) error {
	key, clusterKey := record.ObservedClusterKey(now.ID), record.DesiredClusterKey(now.ID)
	_, err := now.Store.Update(ctx, store.Update{
		Keys: []string{now.Lease.Key(), key, clusterKey},
		Build: func(read store.View, tx *store.Txn) error {
			if _, err := now.Serves(read.KV(clusterKey)); err != nil {
				return err
			}
			tx.ExpectSession(now.Lease)
			tx.Expect(clusterKey)
			kv, ok := read.KV(key)
			if !ok {
				return nil
			}
			next, err := store.Decode[record.ObservedCluster](kv)
			if err != nil {
				return nil //nolint:nilerr // nobody finds a list named there
			}
			next.InDoubt = p.inDoubt.name()
			tx.Expect(key)
			tx.Put(key, next)
			return nil
		},
	})
	now.LoseIfOver(err)
	return err
}

// enterDoubt saves, before a write to a service, that it is in doubt. A list that cannot be saved ends the session: in the
// next one there is none.
func (s *Services) enterDoubt(service string) error {
	now := s.session.Now()
	s.process.inDoubt.writes(service, now)
	err := s.process.inDoubt.save(s.process.writes.inDoubt(now), now)
	if err != nil {
		s.session.Lose(err)
	}
	return err
}

// leaveDoubt saves, after the last write to a service, what is in doubt still.
func (s *Services) leaveDoubt() {
	s.process.inDoubt.writes("", time.Time{})
	s.remember()
}

// remember saves what is in doubt still, and how far the store was seen. When it fails, the list says too much.
func (s *Services) remember() {
	view, now := s.session.Mirror.Snapshot(), s.session.Now()
	if !s.session.Restored(s.session.DesiredCluster(view)) {
		s.process.inDoubt.see(s.session.Seen(view))
	}
	if err := s.process.inDoubt.save(s.process.writes.inDoubt(now), now); err != nil {
		s.session.Lose(err)
	}
}
