package invariants_test

import (
	"testing"

	"github.com/oscarfed/oscarfed/store/record"
	"github.com/oscarfed/oscarfed/store/seal"
	"github.com/oscarfed/oscarfed/test/invariants"
)

// sealedTo is an envelope to the key of the script.
func (s *script) sealedTo(cluster string) string {
	sealed, err := seal.Seal(seal.Header{Purpose: "refresh_token", Cluster: cluster, UID: "f1", Generation: 7}, []byte("token"), s.identity.Recipient())
	if err != nil {
		s.t.Fatal(err)
	}
	return sealed
}

// tokenStory is how a token is held by a, and a member gets an access token; then the
// federation is deleted.
func (f *federation) tokenStory() {
	s := f.s
	f.createdStory()
	hold, holding := record.HoldKey("a", f.uid), record.HoldingKey("a", f.uid)
	f.step("give", func(x *txn) {
		x.put(hold, record.Hold{V: 1, Order: record.HoldKeep, Serial: 7, Owner: owner, Refresh: s.sealedTo("a"), GivenAt: clock})
	})
	f.step("store", func(x *txn) { x.put(holding, record.Holding{V: 1, State: record.HoldStored, Serial: 7}) })
	f.step("stored", func(x *txn) { edit(x, hold, func(h *record.Hold) { h.Refresh = "" }) })
	f.step("want", func(x *txn) { x.put(record.WantKey("b", f.uid), record.Want{V: 1, Nonce: "n1"}) })
	f.step("ask", func(x *txn) {
		x.put(record.TokenAskKey("a", f.uid, "b"), record.TokenAsk{V: 1, Nonce: "n1", Recipient: s.identity.Recipient()})
	})
	f.step("answer", func(x *txn) {
		x.put(record.GrantedKey("a", f.uid, "b"), record.Grant{V: 1, Nonce: "n1", Access: s.sealedTo("b"), Expires: &clock})
	})
	f.step("grant", func(x *txn) {
		x.put(record.GrantKey("b", f.uid), record.Grant{V: 1, Nonce: "n1", Access: s.sealedTo("b"), Expires: &clock})
		x.remove(record.TokenAskKey("a", f.uid, "b"))
		x.remove(record.GrantedKey("a", f.uid, "b"))
	})
	f.step("expire", func(x *txn) {
		x.remove(record.GrantKey("b", f.uid))
		x.remove(record.WantKey("b", f.uid))
	})
	f.deletedStory()
	f.step("revoke", func(x *txn) { edit(x, hold, func(h *record.Hold) { h.Order, h.Serial = record.HoldRevoke, 8 }) })
	f.step("revoked", func(x *txn) { x.put(holding, record.Holding{V: 1, State: record.HoldEnded, Serial: 8}) })
	f.step("ended", func(x *txn) {
		x.remove(hold)
		x.remove(holding)
	})
}

func TestALifeOfATokenBreaksNothing(t *testing.T) {
	t.Parallel()
	s := newScript(t)
	s.federation("f1", "one").tokenStory()
	if report := check(t, s); len(report.Violations) > 0 {
		t.Error(lines(report))
	}
}

func TestPromise9TokensAreForMembers(t *testing.T) {
	t.Parallel()
	spoiled := func(step string, fn func(x *txn, f *federation)) func(*script, *federation) {
		return func(s *script, f *federation) {
			s.on("f1 "+step, func(x *txn) { fn(x, f) })
			f.tokenStory()
		}
	}
	move := func(x *txn, from, to string) {
		value := x.puts[from]
		x.leave(from)
		x.raw(to, string(value))
	}
	run(t, invariants.RuleSecrets, []planted{
		{"a token is asked for a stranger", spoiled("ask", func(x *txn, _ *federation) {
			move(x, record.TokenAskKey("a", "f1", "b"), record.TokenAskKey("a", "f1", "d"))
		}), "which is no member", []invariants.Rule{invariants.RuleWriters}},
		{"a token is asked for who does not want it", spoiled("ask", func(x *txn, _ *federation) {
			move(x, record.TokenAskKey("a", "f1", "b"), record.TokenAskKey("a", "f1", "c"))
		}), "does not want it", []invariants.Rule{invariants.RuleWriters}},
		{"a token is sealed to another key", spoiled("ask", func(x *txn, f *federation) {
			edit(x, record.TokenAskKey("a", "f1", "b"), func(a *record.TokenAsk) { a.Recipient = "age1another" })
		}), "a key that it does not report", nil},
		{"a token is given to a stranger", func(s *script, f *federation) {
			s.on("f1 want", func(x *txn) { move(x, record.WantKey("b", "f1"), record.WantKey("d", "f1")) })
			s.on("f1 ask", func(x *txn) {
				x.leave(record.TokenAskKey("a", "f1", "b"))
				x.put(record.RequestKey("x"), record.Request{V: 1})
			})
			s.on("f1 grant", func(x *txn) { move(x, record.GrantKey("b", "f1"), record.GrantKey("d", "f1")) })
			f.tokenStory()
		}, "a token is given to d", []invariants.Rule{invariants.RuleWriters}},
		{"an older answer is given", spoiled("grant", func(x *txn, _ *federation) {
			edit(x, record.GrantKey("b", "f1"), func(g *record.Grant) { g.Nonce = "n0" })
		}), "what the cluster does not want", nil},
		{"an answer that is not sealed", spoiled("answer", func(x *txn, _ *federation) {
			edit(x, record.GrantedKey("a", "f1", "b"), func(g *record.Grant) { g.Access = "eyJ" })
		}), "access is no age envelope", nil},
		{"a refresh token goes to a member", spoiled("give", func(x *txn, _ *federation) {
			x.put(record.HoldKey("b", "f1"), record.Hold{V: 1, Order: record.HoldKeep, Serial: 7, Owner: owner, Refresh: x.s.sealedTo("b")})
		}), "not the coordinator's", nil},
		{"a refresh token stays when its holding ends", spoiled("revoke", func(x *txn, _ *federation) {
			edit(x, record.HoldKey("a", "f1"), func(h *record.Hold) { h.Refresh = x.s.sealedTo("a") })
		}), "its holding ends", nil},
		{"an order that was not carried out is gone", spoiled("revoked", func(x *txn, _ *federation) {
			edit(x, record.HoldingKey("a", "f1"), func(h *record.Holding) { h.State = record.HoldWaiting })
		}), "has not carried it out", nil},
		{"an order goes back", spoiled("revoke", func(x *txn, _ *federation) {
			edit(x, record.HoldKey("a", "f1"), func(h *record.Hold) { h.Serial = 6 })
		}), "order 6 follows order 7", nil},
	})
}
