package invariants

import (
	"github.com/oscarfed/oscarfed/store/record"
)

// past is what the rules must know of revisions that are over.
type past struct {
	lives map[string]*life
	// federations that were removed, with the revision.
	gone map[string]int64
	// left are the buckets that earlier lives of an owner's service left behind.
	left map[ownedPlace]map[string]bool
	// marks maps the public fingerprint of a service token to the life that has it.
	marks map[string]string
	// hex64 maps the fingerprint of each 64-digit text that was seen to where that was.
	hex64 map[string]Violation
	// clusters are the uids of every registration.
	clusters map[string]bool
}

type ownedPlace struct {
	owner string
	place place
}

// life is one life of a replica.
type life struct {
	place      place
	federation string
	mark       string
	// generation is the highest one that was desired, and applied the highest that
	// was ordered to be applied; 0 for never.
	generation, applied int64
	// observed is the highest generation that was reported on.
	observed int64
	// ready and deleted are the mod revisions of the desired record that were last
	// reported as such. A later report does not undo that they were: the control
	// plane may have decided in between.
	ready, deleted int64
	// prepares are the mod revisions of its prepare records.
	prepares map[int64]bool
	// removed says that its desired record was taken out of the store, and cleared that it was its tombstone
	// and went with the registration of its cluster: what stands there may outlive it.
	removed, cleared bool
	// made are the buckets that its reports named.
	made map[string]bool
}

func newPast() past {
	return past{
		lives: map[string]*life{}, gone: map[string]int64{}, left: map[ownedPlace]map[string]bool{},
		marks: map[string]string{}, hex64: map[string]Violation{},
		clusters: map[string]bool{},
	}
}

// live gives the life of a uid, which begins with its first mention.
func (p *past) live(uid string, at place, federation string) *life {
	l := p.lives[uid]
	if l == nil {
		l = &life{place: at, federation: federation, prepares: map[int64]bool{}, made: map[string]bool{}}
		p.lives[uid] = l
	}
	return l
}

// remember takes over a revision after it was judged.
func (p *past) remember(c *checker) {
	for _, ch := range c.changes {
		switch ch.ref.Kind {
		case record.KindFederation:
			if ch.now == nil {
				p.gone[ch.ref.Name] = c.revision
			}
		case record.KindCluster:
			if reg := as[record.Cluster](ch.now); reg != nil {
				p.clusters[reg.UID] = true
			}
		case record.KindDesiredService:
			p.rememberDesired(c, ch)
		case record.KindObservedService:
			if o := as[record.Observed](ch.now); o != nil {
				p.rememberObserved(o)
			}
		case record.KindDeleted:
			if d := as[record.Deleted](ch.now); d != nil {
				at := ownedPlace{d.Owner, place{d.ClusterID, d.ServiceName}}
				for _, b := range d.BucketsLeft {
					add(p.left, at, b)
				}
			}
		default:
		}
	}
}

func (p *past) rememberObserved(o *record.Observed) {
	l := p.lives[o.UID]
	if l == nil {
		return
	}
	l.observed = max(l.observed, o.ObservedGeneration)
	for _, b := range o.BucketsMade {
		l.made[b] = true
	}
	switch o.Phase {
	case record.PhaseReady:
		l.ready = o.DesiredRevision
	case record.PhaseDeleted:
		l.deleted = o.DesiredRevision
	default:
	}
}

func (p *past) rememberDesired(c *checker, ch *change) {
	d := as[record.Desired](ch.now)
	if d == nil {
		if old := as[record.Desired](ch.old); old != nil {
			l := p.lives[old.UID]
			l.removed, l.cleared = true, old.Tombstone() && c.cleared(ch.ref.Cluster)
			if l.cleared { // what stands may be of any generation before
				l.generation, l.applied = 0, 0
			}
		}
		return
	}
	l := p.lives[d.UID]
	l.generation = max(l.generation, d.Generation)
	switch d.Intent {
	case record.IntentPrepare:
		l.prepares[ch.now.kv.ModRevision] = true
	case record.IntentApply:
		l.applied = max(l.applied, d.Generation)
	case record.IntentDelete:
	}
	if l.mark == "" {
		l.mark = d.Mark
	}
}
