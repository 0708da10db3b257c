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
	// memory is what plan is told; read adds what follows from the rest. With another
	// revision read forgets what was tried and dropped, with another generation the repairs,
	// and with another life (uid) its volume and what it made.
	memory
	revision, generation int64
	uid                  string

	// postAt is when a POST was sent that has not been answered.
	postAt time.Time
	// brokeOff says that the connection of that POST broke: it is sent once more when it is not at work
	// any longer.
	brokeOff bool
	// assumedAt is when an earlier process may have sent a POST whose outcome is not known: of an order without one, or of
	// one that was tried again. Or it is when a POST was sent after one that was not answered.
	assumedAt time.Time
	// posted says that what is seen may be of another POST than the assumed one.
	posted bool
	// confirmed is the life whose POST was answered so, or whose webhook was registered since, and doubted
	// one whose POST may have had no such answer.
	confirmed, doubted string
	// deleteAt is when a DELETE was sent that has not been answered, and lateDeleteAt when one was that OSCAR is taken
	// to be still at work on, or one before it, or one of a bucket or volume, or was by an earlier process:
	// that all is gone does not say that this one had its whole effect.
	deleteAt, lateDeleteAt time.Time
	// assumedDeleteAt is when an earlier process may have sent the DELETE of a tombstone that is not acknowledged, and
	// has not reported how that ended.
	assumedDeleteAt time.Time
	// putAt is when the last PUT with storage was sent that was not answered, or when an earlier process may have sent one.
	putAt time.Time
	// absentIn holds the starts of the lists, since then, without the service.
	absentIn []time.Time
	// written is when the last write ended: older lists do not show it.
	written time.Time
	// repairing says that a repair was sent, and not counted among the repairs yet.
	repairing bool
	// volumeKept is why the volume stays although the order about it is carried out.
	volumeKept string
	// made are buckets that writes of the life made.
	made []string
	// tagged are buckets of inputs that had OSCAR's tags when the service was last seen, and silent those that stand
	// without its notification.
	tagged, silent []string
	// compared is how the service was when it was last seen.
	compared comparison
	// bare is a POST that makes the service of that life with its marks alone; nil where it has no secrets, or that is not
	// known.
	bare []byte
	// erased is the life that a DELETE of this process was for.
	erased string
}

// postTakes is how long OSCAR works on a POST of whose service it shows the first part: MinIO restarts for
// the webhook, which takes some 6 s. So long it works on a DELETE, too, whose service is gone already.
const postTakes = 15 * time.Second

// recentWrites keeps the notes of all names.
type recentWrites struct {
	mu sync.Mutex
	of map[string]*recent
	// late is how long a write that was not answered may take effect, and working how
	// long a POST is at work.
	late, working time.Duration
}

func newRecentWrites(late, working time.Duration) *recentWrites {
	return &recentWrites{of: map[string]*recent{}, late: late, working: working}
}

// read copies what plan needs to know of a name.
func (w *recentWrites) read(name string, desired *record.Desired, revision int64) memory {
	var m memory
	w.change(name, func(n *recent) {
		if n.revision != revision {
			n.revision, n.bucketsDropped, n.volumeDone, n.volumeKept = revision, false, false, ""
			n.forgive()
		}
		if desired != nil && n.uid != desired.UID {
			n.uid, n.made, n.volume, n.bare, n.leavesSecret, n.secretTold = desired.UID, nil, nil, nil, false, false
			n.tagged, n.silent = nil, nil
		}
		if desired != nil && n.generation != desired.Generation {
			n.generation, n.repairs, n.unfixable = desired.Generation, 0, ""
		}
		m = n.memory
		m.late = w.late
		m.bucketsMade = len(n.made) > 0
		m.unconfirmed = desired != nil && n.doubted == desired.UID
		m.postUntil, m.putUntil, m.deleteUntil, m.lateDeleteUntil = w.until(n.postAt), w.until(n.putAt), w.until(n.deleteAt), w.until(n.lateDeleteAt)
		if !n.postAt.IsZero() && n.brokeOff && desired != nil && desired.Intent == record.IntentApply {
			m.postUntil = n.workingUntil // a second POST of one life does no harm
		}
		if until := w.until(n.assumedAt); until.After(m.postUntil) && desired != nil && desired.Tombstone() {
			// Only the end of the life waits for one that was perhaps sent.
			m.postUntil = until
		}
		if until := w.until(n.assumedDeleteAt); until.After(m.lateDeleteUntil) {
			m.lateDeleteUntil = until
		}
	})
	return m
}

// until is how long a write that was sent at a time, and not answered, may take effect; zero for none.
func (w *recentWrites) until(sent time.Time) time.Time {
	if sent.IsZero() {
		return time.Time{}
	}
	return sent.Add(w.late)
}

// change gives fn the note of a name, made if need be.
func (w *recentWrites) change(name string, fn func(*recent)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	n := w.of[name]
	if n == nil {
		n = &recent{}
		w.of[name] = n
	}
	fn(n)
}

// written is when the last write to a name ended.
func (w *recentWrites) written(name string) time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	if n := w.of[name]; n != nil {
		return n.written
	}
	return time.Time{}
}

// sends notes that a POST is sent, and is at work for a time. One before it that was not answered may still take
// effect: with two of them, what is seen does not tell which.
func (w *recentWrites) sends(n *recent, at time.Time, working time.Duration) {
	if at.Sub(n.postAt) < w.late {
		n.assumedAt, n.posted = at, true
	}
	n.postAt, n.workingUntil, n.brokeOff = at, at.Add(working), false
}

// breaksOff notes that the POST was not answered, and is at work until a time. One that follows another so soon is not
// sent again before it cannot take effect any more: an OSCAR that dies of it would die again and again.
func (w *recentWrites) breaksOff(n *recent, silent bool, until time.Time) {
	n.workingUntil = until
	n.brokeOff = !silent && n.postAt.Sub(n.assumedAt) > w.late
}

// erases notes that a DELETE is sent, and what it may leave of the service.
func (n *recent) erases(at time.Time, bare []byte) {
	if !n.deleteAt.IsZero() {
		n.lateDeleteAt = n.deleteAt
	}
	n.deleteAt, n.absentIn, n.bare, n.leavesSecret, n.secretTold = at, nil, bare, true, false
}

// sawPresent notes that a list or read showed our service: a POST that was not
// answered has had its effect, and can have no second.
func (w *recentWrites) sawPresent(name string) {
	w.change(name, func(n *recent) {
		if !n.posted {
			n.assumedAt = time.Time{}
		}
		n.postAt = time.Time{}
		n.absentIn = nil
		n.leavesSecret, n.secretTold = false, false
	})
}

// sawAbsent notes that a list that was started then did not show the service, and
// neither did a GET after it. Two of them end the doubt about a DELETE that was not answered.
func (w *recentWrites) sawAbsent(name string, listed time.Time) {
	w.change(name, func(n *recent) {
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

// sawName notes whether a list that was started then, and a GET after it, showed a service of the name, whosever.
func (n *recent) sawName(stands, fresh bool, listed time.Time) {
	switch {
	case stands:
		n.goneSince = time.Time{}
	case fresh && n.goneSince.IsZero():
		n.goneSince = listed
	}
}

// assume notes that an earlier process may have sent a POST for this name.
func (w *recentWrites) assume(name string, since time.Time) {
	w.change(name, func(n *recent) {
		n.assumedAt, n.workingUntil, n.posted = since, since.Add(w.working), n.posted && !n.postAt.IsZero()
	})
}

// assumeDelete notes that an earlier process may have sent the DELETE of a life. Of its own this process knows more.
func (w *recentWrites) assumeDelete(name, uid string, since time.Time) {
	w.change(name, func(n *recent) {
		if n.erased != uid {
			n.assumedDeleteAt = since
		}
	})
}

// notErased notes that our service was seen as it is before its DELETE is sent.
func (n *recent) notErased() { n.assumedDeleteAt = time.Time{} }

// doubt notes that a POST of a life, which was sent at a time, failed or broke off.
func (n *recent) doubt(uid string, sent time.Time) {
	n.doubted, n.registerFrom = uid, sent.Add(postTakes)
}

// confirm notes that OSCAR has registered the webhook of a life.
func (n *recent) confirm(uid string) { n.confirmed, n.doubted = uid, "" }

// forgive forgets failures.
func (n *recent) forgive() {
	n.tried, n.tries, n.notBefore, n.failure, n.final = rest, 0, time.Time{}, nil, false
}

// forgiveSilence forgets of every name that OSCAR did not answer: it does again.
func (w *recentWrites) forgiveSilence() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, n := range w.of {
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
// from the third try on or when it is definite.
func (n *recent) failed(a act, f failure, now time.Time, first, most time.Duration) {
	if n.tried != a {
		n.forgive()
		n.tried = a
	}
	n.tries++
	pause := most
	if shift := n.tries - 1; !f.definite && shift < 16 {
		pause = min(first<<shift, most)
	}
	n.notBefore = now.Add(pause)
	n.failure, n.final = &f, f.definite || n.tries >= maxTries
}

// maxTries is how often a write is tried before its failure is its outcome.
const maxTries = 3

// forget drops the notes of names that need none any more.
func (w *recentWrites) forget(now time.Time, keep func(name string) bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	maps.DeleteFunc(w.of, func(name string, n *recent) bool {
		_, doubted := w.doubts(n, now)
		return !keep(name) && !doubted
	})
}

// doubts says when the last write to a service was sent that may still take effect, as is noted of it; false for none.
func (w *recentWrites) doubts(n *recent, now time.Time) (last time.Time, ok bool) {
	for _, at := range []time.Time{n.postAt, n.assumedAt, n.putAt, n.deleteAt, n.lateDeleteAt, n.assumedDeleteAt} {
		if now.Before(w.until(at)) && at.After(last) {
			last, ok = at, true
		}
	}
	if sent := n.workingUntil.Add(-w.working); now.Before(n.workingUntil) && sent.After(last) {
		last, ok = sent, true
	}
	return last, ok
}

// inDoubt says when the last write was sent to each service to which one may still take effect.
func (w *recentWrites) inDoubt(now time.Time) map[string]time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	services := map[string]time.Time{}
	for name, n := range w.of {
		if last, ok := w.doubts(n, now); ok {
			services[name] = last
		}
	}
	return services
}

// assumeForPredecessors notes for each order without an outcome, or that was tried again, that an
// earlier process may have sent its POST, PUT or DELETE, where sent says that it may have written to the service at all, and
// when. What is still being prepared was not ordered yet.
func (p *Process) assumeForPredecessors(now *session.Session, view *store.MirrorView, sent func(service string) (time.Time, bool)) {
	registered := now.DesiredCluster(view)
	for kv := range view.Prefix(record.DesiredServicesPrefix(now.ID)) {
		d, err := store.Decode[record.Desired](kv)
		if err != nil || d.Intent == record.IntentPrepare {
			continue
		}
		name := record.ParseKey(kv.Key).Name
		o := now.Observed(view, name, d.UID)
		open := o == nil || o.Phase == record.PhasePending || o.Phase == record.PhasePrepared || o.Phase == record.PhaseApplying
		if at, ok := sent(name); ok {
			if open || triesAgain(o, o.Epoch) {
				p.writes.assume(name, at)
			}
			if mayBeUpdated(o, d.Generation) {
				p.writes.change(name, func(n *recent) { n.putAt = at })
			}
			if d.Tombstone() && o != nil && o.Phase != record.PhaseDeleted && o.Operation == record.OperationDelete && o.Status == 0 {
				p.writes.change(name, func(n *recent) { n.lateDeleteAt = at })
			}
			if d.Tombstone() && d.Keep != record.KeepRelease && !acknowledged(o, kv.ModRevision) && !o.Erased() {
				p.writes.assumeDelete(name, d.UID, at)
			}
		}
		// After a restore the service may have been in use for long.
		if d.Intent != record.IntentApply || registered == nil || d.Epoch != registered.Word() {
			continue
		}
		if open && (o == nil || o.Applied() == 0) || triesAgain(o, registered.Word()) {
			p.writes.change(name, func(n *recent) {
				if n.confirmed != d.UID {
					n.doubt(d.UID, now.Started)
				}
			})
		}
	}
}

// triesAgain says that a POST may have followed a report of an epoch: of a service that has vanished, or after
// POSTs that have failed.
func triesAgain(o *record.Observed, epoch string) bool {
	return o != nil && o.Epoch == epoch && (o.Remade || o.Phase != record.PhaseDeleted && o.Operation == create.operation())
}

// mayBeUpdated says that a PUT may have been sent with a report, or after it: the generation was not in place then, or was not
// any more.
func mayBeUpdated(o *record.Observed, generation int64) bool {
	switch {
	case o == nil || o.Phase == record.PhaseDeleted:
		return false
	case o.Applied() == 0:
		return o.PutSent
	case o.Phase == record.PhaseDrifted, o.Phase == record.PhaseFailed:
		return true
	}
	return o.Applied() != generation
}
