package services

import (
	"maps"
	"sync"
	"time"

	"github.com/oscarfed/oscarfed/store"
	"github.com/oscarfed/oscarfed/store/record"
	"github.com/oscarfed/oscarfed/syncer/session"
)

// recent is what this process remembers of one service name. It is lost with the
// process: what must survive is in etcd, and what a new process cannot know it
// assumes (assume).
type recent struct {
	// postAt is when a POST was sent that has not been answered.
	postAt time.Time
	// assumedAt is the start of the session in which an apply order without an
	// outcome was found: an earlier process may have sent its POST.
	assumedAt time.Time
	// openUntil is how long such a POST is taken to be still at work on a service
	// that is seen already: it makes the buckets last, within seconds.
	openUntil time.Time
	// posted says that a POST of this process was answered with success.
	posted bool
	// confirmed is the life whose POST was answered so, or whose webhook was registered since, and unconfirmed
	// one whose POST may have had no such answer.
	confirmed, unconfirmed string
	// deleteAt is when a DELETE was sent that has not been answered.
	deleteAt time.Time
	// absentIn holds the starts of the lists, since then, without the service.
	absentIn []time.Time
	// halfSince is since when the service was always seen half-created.
	halfSince time.Time
	// written is when the last write ended: older lists do not show it.
	written time.Time

	// The rest belongs to one revision of the desired record.
	revision       int64
	tried          act
	tries          int
	notBefore      time.Time
	failure        *failure
	final          bool
	bucketsDropped bool
	// volumeDone says that the order about the volume is carried out, as far as it can
	// be: volumeKept is why the volume stays all the same.
	volumeDone bool
	volumeKept string

	// made are buckets that writes of one life made, and volume what its service was seen
	// to mount; uid is that life.
	uid    string
	made   []string
	volume *record.Volume
	// compared is how the service was when it was last seen.
	compared comparison
	// erased is the life that a DELETE of this process was for.
	erased string

	// The rest belongs to one generation. repairing says that a repair was sent,
	// and not counted among the repairs yet.
	generation int64
	repairing  bool
	repairs    int
	unfixable  string
}

// recentWrites keeps the notes of all names.
type recentWrites struct {
	mu sync.Mutex
	of map[string]*recent
	// late is Config.LateWindow, working Config.WriteTimeout.
	late, working time.Duration
}

func newRecentWrites(late, working time.Duration) *recentWrites {
	return &recentWrites{of: map[string]*recent{}, late: late, working: working}
}

// read copies what plan needs to know of a name.
func (b *recentWrites) read(name string, desired *record.Desired, revision int64) memory {
	var m memory
	b.change(name, func(n *recent) {
		if n.revision != revision {
			n.revision, n.bucketsDropped, n.volumeDone, n.volumeKept = revision, false, false, ""
			n.forgive()
		}
		if desired != nil && n.uid != desired.UID {
			n.uid, n.made, n.volume = desired.UID, nil, nil
		}
		if desired != nil && n.generation != desired.Generation {
			n.generation, n.repairs, n.unfixable = desired.Generation, 0, ""
		}
		m = memory{
			tried:          n.tried,
			notBefore:      n.notBefore,
			failure:        n.failure,
			final:          n.final,
			repairs:        n.repairs,
			unfixable:      n.unfixable,
			bucketsMade:    len(n.made) > 0,
			bucketsDropped: n.bucketsDropped,
			volume:         n.volume,
			volumeDone:     n.volumeDone,
			unconfirmed:    desired != nil && n.unconfirmed == desired.UID,
		}
		m.workingUntil, m.halfSince = n.openUntil, n.halfSince
		if !n.postAt.IsZero() {
			m.postUntil = n.postAt.Add(b.late)
		}
		if until := n.assumedAt.Add(b.late); !n.assumedAt.IsZero() && until.After(m.postUntil) && desired != nil && desired.Tombstone() {
			// A second POST of one life does no harm, so only the end of the
			// life waits for one that was perhaps sent.
			m.postUntil = until
		}
		if !n.deleteAt.IsZero() {
			m.deleteUntil = n.deleteAt.Add(b.late)
		}
	})
	return m
}

// change gives fn the note of a name, made if need be.
func (b *recentWrites) change(name string, fn func(*recent)) {
	b.mu.Lock()
	defer b.mu.Unlock()
	n := b.of[name]
	if n == nil {
		n = &recent{}
		b.of[name] = n
	}
	fn(n)
}

// written is when the last write to a name ended.
func (b *recentWrites) written(name string) time.Time {
	b.mu.Lock()
	defer b.mu.Unlock()
	if n := b.of[name]; n != nil {
		return n.written
	}
	return time.Time{}
}

// sawPresent notes that a list or read showed our service: a POST that was not
// answered has had its effect, and can have no second.
func (b *recentWrites) sawPresent(name string) {
	b.change(name, func(n *recent) {
		if !n.posted {
			n.assumedAt = time.Time{}
		}
		n.postAt = time.Time{}
		n.absentIn = nil
	})
}

// sawAbsent notes that a list that was started then did not show the service, and
// neither did a GET after it. Two of them end the doubt about a DELETE that was not answered.
func (b *recentWrites) sawAbsent(name string, listed time.Time) {
	b.change(name, func(n *recent) {
		if n.deleteAt.IsZero() || !listed.After(n.deleteAt) {
			return
		}
		if last := len(n.absentIn) - 1; last < 0 || listed.After(n.absentIn[last]) {
			n.absentIn = append(n.absentIn, listed)
		}
		if len(n.absentIn) >= 2 {
			n.deleteAt, n.absentIn = time.Time{}, nil
		}
	})
}

// assume notes that an earlier process may have sent a POST for this name.
func (b *recentWrites) assume(name string, since time.Time) {
	b.change(name, func(n *recent) { n.assumedAt, n.openUntil, n.posted = since, since.Add(b.working), false })
}

// doubt notes that an earlier process may have sent the POST of a life, and got no answer.
func (b *recentWrites) doubt(name, uid string) {
	b.change(name, func(n *recent) {
		if n.confirmed != uid {
			n.unconfirmed = uid
		}
	})
}

// confirm notes that OSCAR has registered the webhook of a life.
func (n *recent) confirm(uid string) { n.confirmed, n.unconfirmed = uid, "" }

// forgive forgets failures.
func (n *recent) forgive() {
	n.tried, n.tries, n.notBefore, n.failure, n.final = rest, 0, time.Time{}, nil, false
}

// forgiveSilence forgets of every name that OSCAR did not answer: it does again.
func (b *recentWrites) forgiveSilence() {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, n := range b.of {
		if n.failure != nil && n.failure.reason == record.ReasonOscarUnreachable {
			n.forgive()
		}
	}
}

// beginRepair notes that a repair is sent.
func (n *recent) beginRepair() {
	n.repairing = true
	if n.unfixable != "" { // it is another change now
		n.repairs, n.unfixable = 0, ""
	}
}

// repaired counts a repair that OSCAR says it did, or that was seen. One that
// failed is told as such, and is no sign that a person undoes it.
func (n *recent) repaired() {
	if n.repairing {
		n.repairing = false
		n.repairs++
	}
}

// failed notes that a step did not have its effect. The pause before the next
// try doubles from first to most. The failure is told at once, and as the outcome
// from the third try on or when it is final.
func (n *recent) failed(a act, f failure, final bool, now time.Time, first, most time.Duration) {
	if n.tried != a {
		n.forgive()
		n.tried = a
	}
	n.tries++
	pause := most
	if shift := n.tries - 1; !final && shift < 16 {
		pause = min(first<<shift, most)
	}
	n.notBefore = now.Add(pause)
	n.failure, n.final = &f, final || n.tries >= maxTries
}

// maxTries is how often a write is tried before its failure is its outcome.
const maxTries = 3

// forget drops the notes of names that need none any more.
func (b *recentWrites) forget(now time.Time, keep func(name string) bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	maps.DeleteFunc(b.of, func(name string, n *recent) bool {
		doubt := func(t time.Time) bool { return !t.IsZero() && now.Before(t.Add(b.late)) }
		return !keep(name) && !doubt(n.postAt) && !doubt(n.assumedAt) && !doubt(n.deleteAt)
	})
}

// AssumeForPredecessors notes for each order without an outcome that an earlier
// process may have sent its POST a moment before it died. What is still being
// prepared was not ordered yet.
func (p *Process) AssumeForPredecessors(now *session.Session, view *store.MirrorView) {
	registered := now.DesiredCluster(view)
	for kv := range view.Prefix(record.DesiredServicesPrefix(now.ID)) {
		d, err := store.Decode[record.Desired](kv)
		if err != nil || d.Intent == record.IntentPrepare {
			continue
		}
		name := record.ParseKey(kv.Key).Name
		o := now.Observed(view, name, d.UID)
		if o == nil || o.Phase == record.PhasePending || o.Phase == record.PhasePrepared || o.Phase == record.PhaseApplying {
			p.writes.assume(name, now.Started)
			// After a restore the service may have been in use for long.
			if d.Intent == record.IntentApply && registered != nil && d.Epoch == registered.Word() && (o == nil || o.Applied() == 0) {
				p.writes.doubt(name, d.UID)
			}
		}
	}
}
