package invariants

import (
	"bytes"

	"github.com/oscarfed/oscarfed/store/record"
)

// Promise 11: the same Idempotency-Key gets the same outcome. A change that waits
// for votes has its request's record, open; the transaction that ends the wait,
// however it ends, writes the answer, and an answer stays as it is.

// requestsStep judges what a revision did to requests and to the changes that they
// asked for.
func requestsStep(c *checker) {
	for _, ch := range c.changes {
		switch ch.ref.Kind {
		case record.KindRequest:
			c.answerStays(ch, as[record.Request](ch.old), as[record.Request](ch.now))
		case record.KindFederation:
			old, now := openRequest(as[record.Federation](ch.old)), openRequest(as[record.Federation](ch.now))
			if now != "" && now != old {
				c.isOpen(ch, now, true)
			}
			if old != "" && now != old {
				c.isOpen(ch, old, false)
			}
		default:
		}
	}
}

// openRequest is the hash of the request whose change waits for votes, or nothing.
func openRequest(f *record.Federation) string {
	if f == nil || f.Change == nil {
		return ""
	}
	return f.Change.Request
}

// isOpen: the record of a request is there, and has an answer unless it is open.
func (c *checker) isOpen(ch *change, hash string, open bool) {
	key := record.RequestKey(hash)
	switch r := as[record.Request](c.now(key)); {
	case r == nil:
		c.violatef(RuleRequests, key, "federation %s has a change of this request, which has no record", ch.ref.Name)
	case open && r.Answer != nil:
		c.violatef(RuleRequests, key, "it has an answer, and its change of federation %s waits for votes", ch.ref.Name)
	case !open && r.Answer == nil:
		c.violatef(RuleRequests, key, "its change of federation %s has ended, and it has no answer", ch.ref.Name)
	}
}

// answerStays: a repeated request has the same answer.
func (c *checker) answerStays(ch *change, old, now *record.Request) {
	if old == nil || now == nil || old.Answer == nil || !old.Keyed {
		return
	}
	was, err := record.Encode(old.Answer)
	if err != nil {
		return // it was read from its encoding
	}
	if is, err := record.Encode(now.Answer); err != nil || now.UID != old.UID || !bytes.Equal(was, is) {
		c.violatef(RuleRequests, ch.key, "its answer was changed")
	}
}
