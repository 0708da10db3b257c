package invariants

import (
	"bytes"
	"encoding/hex"
	"slices"
	"strconv"
	"strings"

	"github.com/oscarfed/oscarfed/store/record"
)

// Promise 6: what is not ours is not touched. The store shows what a syncer takes
// for ours: the mark of a life, which never changes and belongs to no other; the
// rendered service that carries the same uid and generation, and never changes; and
// the buckets of earlier lives, which only those lives can have left.
func oursStep(c *checker) {
	for _, ch := range c.changes {
		switch ch.ref.Kind {
		case record.KindDesiredService:
			if d := as[record.Desired](ch.now); d != nil {
				c.markIsIts(ch, d)
				if !d.Tombstone() {
					c.specIsIts(ch, d)
				}
			}
		case record.KindPart:
			if ch.old != nil && ch.now != nil && !bytes.Equal(ch.old.kv.Value, ch.now.kv.Value) {
				c.violatef(RuleOurs, ch.key, "a part was changed, which other records name")
			}
		case record.KindSpec:
			if ch.old != nil && ch.now != nil && !bytes.Equal(ch.old.kv.Value, ch.now.kv.Value) {
				c.violatef(RuleOurs, ch.key, "a rendered service was changed: another one needs another generation")
			}
		case record.KindDeleted:
			if d := as[record.Deleted](ch.now); d != nil {
				c.bucketsWereMade(ch, d)
			}
		default:
		}
	}
}

// markIsIts: the mark tells what is ours, so it stays with the life.
func (c *checker) markIsIts(ch *change, d *record.Desired) {
	digest, ok := strings.CutPrefix(d.Mark, "sha256:")
	if raw, err := hex.DecodeString(digest); !ok || err != nil || len(raw) != 32 {
		c.violatef(RuleOurs, ch.key, "its mark %q is no fingerprint", d.Mark)
		return
	}
	if l := c.past.lives[d.UID]; l.mark != "" && l.mark != d.Mark {
		c.violatef(RuleOurs, ch.key, "the mark of uid %s has changed", d.UID)
	}
	switch other := c.past.marks[d.Mark]; other {
	case "":
		c.past.marks[d.Mark] = d.UID
	case d.UID:
	default:
		c.violatef(RuleOurs, ch.key, "uids %s and %s have the same mark", other, d.UID)
	}
}

// specIsIts: what is sent to OSCAR carries the marks of the life that it is sent for.
func (c *checker) specIsIts(ch *change, d *record.Desired) {
	at := placeOfRef(ch.ref)
	spec := as[record.Spec](c.now(at.specKey(d)))
	if spec == nil {
		return // promise 1
	}
	key := at.specKey(d)
	s, whole, err := c.serviceOf(d.Federation, spec)
	if !whole {
		return // promise 1
	}
	if err != nil {
		c.violatef(RuleOurs, key, "the rendered service cannot be read: %v", err)
		return
	}
	if s.Name != at.service || s.ClusterID != at.cluster {
		c.violatef(RuleOurs, key, "the rendered service is %s/%s", s.ClusterID, s.Name)
	}
	uid, generation := s.Annotations["oscarfed/uid"], s.Annotations["oscarfed/generation"]
	if uid != d.UID || generation != strconv.FormatInt(d.Generation, 10) {
		c.violatef(RuleOurs, key, "the rendered service is marked with uid %q, generation %q, for uid %s, generation %d", uid, generation, d.UID, d.Generation)
	}
	if s.Annotations["oscar.grycap/federation-worker"] != "true" {
		c.violatef(RuleOurs, key, "the rendered service lacks the annotation that makes OSCAR keep our token")
	}
	if len(s.Federation.Members) > 0 {
		c.violatef(RuleOurs, key, "the rendered service has members: OSCAR itself would write to other clusters")
	}
	for _, b := range spec.Left {
		if !c.past.left[ownedPlace{d.Owner, at}][b] && !c.past.tookOver(d, at, b) {
			c.violatef(RuleOurs, key, "bucket %q is taken for one that %s left behind at %s, but no earlier life of its did", b, d.Owner, at)
		}
	}
}

// tookOver: one service of a federation may take the place of another on a cluster,
// and has the buckets that the other made or might attach to.
func (p *past) tookOver(d *record.Desired, at place, bucket string) bool {
	for _, l := range p.lives {
		if l.federation == d.Federation && l.place.cluster == at.cluster &&
			(l.made[bucket] || p.left[ownedPlace{d.Owner, l.place}][bucket]) {
			return true
		}
	}
	return false
}

// bucketsWereMade: only what a life made can be left behind by it.
func (c *checker) bucketsWereMade(ch *change, d *record.Deleted) {
	l := c.past.lives[d.UID]
	for _, b := range d.BucketsLeft {
		if l == nil || !l.made[b] {
			c.violatef(RuleOurs, ch.key, "bucket %q is remembered as left behind by uid %s, which never reported to have made it", b, d.UID)
		}
	}
}

// dataWasOrdered: the tombstone that a report of a deleted bucket or volume answers
// orders it, and a bucket was made by that life.
func (c *checker) dataWasOrdered(ch *change, o *record.Observed) {
	d, l := as[record.Desired](c.now(placeOfRef(ch.ref).desiredKey())), c.past.lives[o.UID]
	if f := o.VolumeFate; f != nil && f.Fate == record.BucketDeleted && (d == nil || !d.Tombstone() || d.Data != "delete") {
		c.violatef(RuleData, ch.key, "volume %q was deleted without an order", f.Volume)
	}
	for _, f := range o.BucketFates {
		if f.Fate != record.BucketDeleted {
			continue
		}
		if d == nil || !d.Tombstone() || d.Data != "delete" {
			c.violatef(RuleData, ch.key, "bucket %q was deleted without an order", f.Bucket)
		}
		if l == nil || !l.made[f.Bucket] {
			c.violatef(RuleData, ch.key, "bucket %q was deleted, which this life never reported to have made", f.Bucket)
		}
	}
}

// Promise 7, as far as it shows: user data goes only when the owner orders it. A
// rollback is no order of the owner, and a record that is no tombstone cannot carry one.
func dataStep(c *checker) {
	for _, ch := range c.changes {
		if o := as[record.Observed](ch.now); o != nil {
			c.dataWasOrdered(ch, o)
		}
		d := as[record.Desired](ch.now)
		if d == nil || d.Data == "" && d.Jobs == "" {
			continue
		}
		switch {
		case !d.Tombstone():
			c.violatef(RuleData, ch.key, "an order about buckets or jobs stands in a record with intent %s", d.Intent)
		case d.Cause == record.CauseRollback:
			c.violatef(RuleData, ch.key, "a rollback orders data=%q jobs=%q", d.Data, d.Jobs)
		case !slices.Contains([]string{"", "delete"}, d.Data) || !slices.Contains([]string{"", "cancel"}, d.Jobs):
			c.violatef(RuleData, ch.key, "the orders data=%q jobs=%q are unknown", d.Data, d.Jobs)
		}
	}
}
