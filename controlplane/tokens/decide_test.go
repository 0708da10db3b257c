package tokens

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/oscarfed/oscarfed/controlplane/view"
	"github.com/oscarfed/oscarfed/store/record"
)

var tokenClock = time.Date(2026, 11, 20, 13, 4, 5, 0, time.UTC)

// keepers is a federation over a (the coordinator), b and c; a holds its token.
func keepers() tokenSituation {
	c := view.NewTokenState()
	c.Holds["a"] = view.Versioned[record.Hold]{Rec: &record.Hold{V: 1, Order: record.HoldKeep, Serial: 7, Owner: "alice"}, Rev: 11}
	c.Holdings["a"] = view.Versioned[record.Holding]{Rec: &record.Holding{V: 1, State: record.HoldStored, Serial: 7}, Rev: 12}
	fed := &record.Federation{UID: "f", Phase: record.PhaseReady, Members: []record.Member{
		{ClusterID: "a", ServiceName: "s0", UID: "f-a", Coordinator: true}, {ClusterID: "b", ServiceName: "s1", UID: "f-b"},
		{ClusterID: "c", ServiceName: "s2", UID: "f-c"}, {Type: "endpoint", URL: "https://e"},
	}}
	return tokenSituation{
		uid: "f", fed: fed, fedRev: 10, tokens: c, holderAlive: map[string]bool{"a": true},
		recipients: map[string]string{"b": "key-of-b", "c": "key-of-c", "x": "key-of-x"}, now: tokenClock,
	}
}

// keepsLater says that the holder keeps a token that was given after an order to revoke it, which is of some time ago.
func (s *tokenSituation) keepsLater(ago time.Duration) {
	hold, report := s.tokens.Holds["a"].Rec, s.tokens.Holdings["a"].Rec
	hold.Order, hold.Serial = record.HoldRevoke, s.now.Add(-ago).UnixMilli()
	report.State, report.Reason, report.Serial = record.HoldWaiting, record.ReasonAheadOfDesired, hold.Serial
}

func (s *tokenSituation) want(member, nonce string) {
	s.tokens.Wants[member] = view.Versioned[record.Want]{Rec: &record.Want{V: 1, Nonce: nonce}, Rev: 20}
}

// written are the records that the steps write below the root; a deletion is nil.
func written(steps []tokenStep) map[string]any {
	out := map[string]any{}
	for _, step := range steps {
		for key, rec := range step.put {
			out[strings.TrimPrefix(key, record.Root)] = rec
		}
	}
	return out
}

func keysOf(put map[string]any) string {
	var out []string
	for key, rec := range put {
		if rec == nil {
			key = "-" + key
		}
		out = append(out, key)
	}
	slices.Sort(out)
	return strings.Join(out, " ")
}

// Only a cluster with a replica in the federation gets an answer, and the holder receives the
// key that this cluster's syncer reports.
func TestWhoIsHeardByTheHolder(t *testing.T) {
	s := keepers()
	s.want("b", "n1")
	s.want("x", "n2") // no member: it may write what it likes below its own prefix
	steps, _ := decideTokens(s)
	put := written(steps)
	if got := keysOf(put); got != "c/a/desired/tokens/f/asks/b" {
		t.Fatalf("written: %s", got)
	}
	ask, _ := put["c/a/desired/tokens/f/asks/b"].(*record.TokenAsk)
	if ask.Recipient != "key-of-b" || ask.Nonce != "n1" {
		t.Errorf("asked: %+v", ask)
	}
	expect := steps[0].expect
	for key, rev := range map[string]int64{record.FederationKey("f"): 10, record.WantKey("b", "f"): 20, record.HoldKey("a", "f"): 11, record.TokenAskKey("a", "f", "b"): 0} {
		if got, ok := expect[key]; !ok || got != rev {
			t.Errorf("it does not compare %s with %d", key, rev)
		}
	}

	for name, change := range map[string]func(*tokenSituation){
		"it has left": func(s *tokenSituation) { s.fed.Members = slices.Delete(s.fed.Members, 1, 2) },
		"it only leaves": func(s *tokenSituation) {
			s.fed.Leaving, s.fed.Members = s.fed.Members[1:2], slices.Delete(s.fed.Members, 1, 2)
		},
		"the federation is deleted": func(s *tokenSituation) { s.fed.Phase = record.PhaseDeleting },
		"the federation is gone":    func(s *tokenSituation) { s.fed, s.fedRev = nil, 0 },
	} {
		t.Run(name, func(t *testing.T) {
			s := keepers()
			s.want("b", "n1")
			change(&s)
			steps, _ := decideTokens(s)
			for key := range written(steps) {
				if !strings.HasSuffix(key, "/hold") {
					t.Errorf("%s is written", key)
				}
			}
		})
	}
}

// A grant of the holder goes to the member that asked, for the want that it answers, and the
// ask is deleted with it.
func TestAGrantIsPassedBackOnce(t *testing.T) {
	expires := record.At(tokenClock.Add(time.Hour))
	s := keepers()
	s.want("b", "n1")
	p := view.Exchange{Holder: "a", Member: "b"}
	s.tokens.Asks[p] = view.Versioned[record.TokenAsk]{Rec: &record.TokenAsk{Nonce: "n1", Recipient: "key-of-b"}, Rev: 21}
	s.tokens.Granted[p] = view.Versioned[record.Grant]{Rec: &record.Grant{Nonce: "n1", Access: "sealed", Expires: &expires}, Rev: 22}
	steps, _ := decideTokens(s)
	put := written(steps)
	if got := keysOf(put); got != "-c/a/desired/tokens/f/asks/b -c/a/observed/tokens/f/asks/b c/b/desired/tokens/f/want" {
		t.Fatalf("written: %s", got)
	}
	grant, _ := put["c/b/desired/tokens/f/want"].(*record.Grant)
	if grant.Access != "sealed" || grant.Nonce != "n1" {
		t.Errorf("%+v", grant)
	}

	s.tokens.Asks, s.tokens.Granted = map[view.Exchange]view.Versioned[record.TokenAsk]{}, map[view.Exchange]view.Versioned[record.Grant]{}
	s.tokens.Grants["b"] = view.Versioned[record.Grant]{Rec: grant, Rev: 23}
	steps, again := decideTokens(s)
	if len(steps) > 0 || !again.Equal(expires.Add(grantSlack)) {
		t.Errorf("an answered want is looked at again at %v, with %v", again, keysOf(written(steps)))
	}
	s.now = expires.Add(2 * grantSlack)
	steps, _ = decideTokens(s)
	if got := keysOf(written(steps)); got != "-c/b/desired/tokens/f/want -c/b/observed/tokens/f/want" {
		t.Errorf("expired: %s", got)
	}

	// An answer to an older want does not count, and the control plane asks again.
	s = keepers()
	s.want("b", "n2")
	s.tokens.Asks[p] = view.Versioned[record.TokenAsk]{Rec: &record.TokenAsk{Nonce: "n1", Recipient: "key-of-b", AskedAt: record.At(tokenClock.Add(-time.Hour))}, Rev: 21}
	s.tokens.Granted[p] = view.Versioned[record.Grant]{Rec: &record.Grant{Nonce: "n1", Access: "sealed", Expires: &expires}, Rev: 22}
	steps, _ = decideTokens(s)
	if got := keysOf(written(steps)); got != "c/a/desired/tokens/f/asks/b" {
		t.Errorf("an older answer: %s", got)
	}
}

// A member that changes its want all the time makes no more work than one in five
// seconds.
func TestAMemberThatWantsAllTheTimeWaits(t *testing.T) {
	s := keepers()
	s.want("b", "n2")
	p := view.Exchange{Holder: "a", Member: "b"}
	s.tokens.Asks[p] = view.Versioned[record.TokenAsk]{Rec: &record.TokenAsk{Nonce: "n1", Recipient: "key-of-b", AskedAt: record.At(tokenClock.Add(-time.Second))}, Rev: 21}
	steps, again := decideTokens(s)
	if len(steps) > 0 || !again.Equal(tokenClock.Add(4*time.Second)) {
		t.Errorf("%s, again at %v", keysOf(written(steps)), again)
	}
}

func TestWhyAMemberGetsNoToken(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*tokenSituation)
		reason record.Reason
		asked  bool
	}{
		"nobody holds one":    {func(s *tokenSituation) { clear(s.tokens.Holds); clear(s.tokens.Holdings) }, record.ReasonNeedsUserToken, false},
		"it is being deleted": {func(s *tokenSituation) { s.tokens.Holds["a"].Rec.Order = record.HoldRevoke }, record.ReasonNeedsUserToken, false},
		"it is lost":          {func(s *tokenSituation) { s.tokens.Holdings["a"].Rec.State = record.HoldLost }, record.ReasonTokenLost, true},
		"the holder is away":  {func(s *tokenSituation) { s.holderAlive["a"] = false }, record.ReasonTokenHolderAway, true},
		"its issuer is away":  {func(s *tokenSituation) { s.tokens.Holdings["a"].Rec.State = record.HoldFailing }, record.ReasonTokenHolderAway, true},
		"it is on its way":    {func(s *tokenSituation) { clear(s.tokens.Holdings) }, "", true},
		"a lost one, replaced": {func(s *tokenSituation) {
			s.tokens.Holdings["a"].Rec.State, s.tokens.Holds["a"].Rec.Serial = record.HoldLost, 8
		}, "", true},
	} {
		t.Run(name, func(t *testing.T) {
			s := keepers()
			s.want("b", "n1")
			c.change(&s)
			steps, _ := decideTokens(s)
			put := written(steps)
			grant, _ := put["c/b/desired/tokens/f/want"].(*record.Grant)
			if (grant == nil) != (c.reason == "") || grant != nil && (grant.Reason != c.reason || grant.Access != "" || grant.Message == "") {
				t.Errorf("told: %+v", grant)
			}
			if _, asked := put["c/a/desired/tokens/f/asks/b"]; asked != c.asked {
				t.Errorf("asked: %t", asked)
			}
		})
	}
}

func TestTheOrderToTheHolder(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*tokenSituation)
		order  record.HoldOrder // empty: nothing is written
		gone   bool
	}{
		"stands":    {func(*tokenSituation) {}, "", false},
		"is stored": {func(s *tokenSituation) { s.tokens.Holds["a"].Rec.Refresh = "sealed" }, record.HoldKeep, false},
		"is not stored yet": {func(s *tokenSituation) {
			s.tokens.Holds["a"].Rec.Refresh, s.tokens.Holdings["a"].Rec.Serial = "sealed", 6
		}, "", false},
		"waits": {func(s *tokenSituation) {
			s.tokens.Holds["a"].Rec.Refresh, s.tokens.Holdings["a"].Rec.State = "sealed", record.HoldWaiting
		}, "", false},
		"the federation is deleted": {func(s *tokenSituation) { s.fed.Phase = record.PhaseDeleting }, record.HoldRevoke, false},
		"it is deleted with data":   {func(s *tokenSituation) { s.fed.Phase, s.erases = record.PhaseDeleting, true }, "", false},
		"the federation is gone":    {func(s *tokenSituation) { s.fed = nil }, record.HoldRevoke, false},
		"its service lives on":      {func(s *tokenSituation) { s.fed, s.adopted = nil, true }, record.HoldForget, false},
		"the creation is refused":   {func(s *tokenSituation) { s.fed.Phase = record.PhaseAborted }, record.HoldForget, false},
		"the creation fails":        {func(s *tokenSituation) { s.fed.Phase = record.PhaseRollingBack }, record.HoldForget, false},
		"deleted, and not done":     {func(s *tokenSituation) { s.fed, s.tokens.Holds["a"].Rec.Order = nil, record.HoldRevoke }, "", false},
		"deleted, and done": {func(s *tokenSituation) {
			s.fed, s.tokens.Holds["a"].Rec.Order, s.tokens.Holdings["a"].Rec.State = nil, record.HoldRevoke, record.HoldEnded
		}, "", true},
		// The order is in the backup, and a token was given after it.
		"deleted by its owner, and another one is kept": {func(s *tokenSituation) { s.keepsLater(time.Hour) }, "", false},
		"the same, and the federation is deleted": {func(s *tokenSituation) {
			s.keepsLater(time.Hour)
			s.fed.Phase = record.PhaseDeleting
		}, record.HoldRevoke, false},
		"the same, and the federation is gone": {func(s *tokenSituation) {
			s.keepsLater(time.Hour)
			s.fed = nil
		}, record.HoldRevoke, false},
		"the same, a moment ago": {func(s *tokenSituation) {
			s.keepsLater(time.Second)
			s.fed = nil
		}, "", false},
		"deleted by its owner, done": {func(s *tokenSituation) {
			s.tokens.Holds["a"].Rec.Order, s.tokens.Holdings["a"].Rec.State = record.HoldRevoke, record.HoldEnded
		}, "", false},
	} {
		t.Run(name, func(t *testing.T) {
			s := keepers()
			c.change(&s)
			steps, _ := decideTokens(s)
			put := written(steps)
			rec, touched := put["c/a/desired/tokens/f/hold"]
			h, _ := rec.(*record.Hold)
			switch {
			case c.gone:
				if _, both := put["c/a/observed/tokens/f/hold"]; !touched || rec != nil || !both {
					t.Errorf("written: %s", keysOf(put))
				}
			case c.order == "" && touched, c.order != "" && (h == nil || h.Order != c.order || h.Refresh != ""):
				t.Errorf("written: %s, %+v", keysOf(put), h)
			case h != nil && c.order != record.HoldKeep && h.Serial <= 7:
				t.Errorf("the order has serial %d, not a later one", h.Serial)
			}
		})
	}
}

// Whatever stands in the store, a cluster that is no member gets nothing that could hold
// a token, and no transaction outgrows what etcd takes.
func TestNoTokenForStrangers(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := keepers()
		s.now = tokenClock.Add(time.Duration(rapid.IntRange(-7200, 7200).Draw(t, "now")) * time.Second)
		expires := record.At(tokenClock.Add(time.Hour))
		nonce := rapid.SampledFrom([]string{"n1", "n2"})
		for _, member := range []string{"a", "b", "c", "x", "y"} {
			p := view.Exchange{Holder: rapid.SampledFrom([]string{"a", "b", "x"}).Draw(t, "holder"), Member: member}
			if rapid.Bool().Draw(t, "wants") {
				s.want(member, nonce.Draw(t, "want"))
			}
			if rapid.Bool().Draw(t, "asked") {
				s.tokens.Asks[p] = view.Versioned[record.TokenAsk]{Rec: &record.TokenAsk{Nonce: nonce.Draw(t, "ask"), Recipient: "key-of-" + member}, Rev: 21}
			}
			if rapid.Bool().Draw(t, "answered") {
				s.tokens.Granted[p] = view.Versioned[record.Grant]{Rec: &record.Grant{Nonce: nonce.Draw(t, "answer"), Access: "sealed to " + member, Expires: &expires}, Rev: 22}
			}
			if rapid.Bool().Draw(t, "granted") {
				s.tokens.Grants[member] = view.Versioned[record.Grant]{Rec: &record.Grant{Nonce: nonce.Draw(t, "grant"), Access: "sealed", Expires: &expires}, Rev: 23}
			}
		}
		s.fed.Phase = rapid.SampledFrom([]record.Phase{record.PhasePreparing, record.PhaseReady, record.PhaseDeleting, record.PhaseAborted}).Draw(t, "phase")
		steps, _ := decideTokens(s)
		for _, step := range steps {
			if len(step.expect) > 7 || len(step.put) > 5 {
				t.Fatalf("step %s compares %d keys and writes %d", step.name, len(step.expect), len(step.put))
			}
			for key := range step.put {
				if _, compared := step.expect[key]; !compared {
					t.Fatalf("step %s writes %s and does not compare it", step.name, key)
				}
			}
		}
		for key, rec := range written(steps) {
			if rec == nil {
				continue
			}
			for _, stranger := range []string{"x", "y"} {
				if strings.HasPrefix(key, "c/"+stranger+"/desired/tokens/") && !strings.Contains(key, "/asks/") || strings.HasSuffix(key, "/asks/"+stranger) {
					t.Fatalf("%s is written: %+v", key, rec)
				}
			}
			if grant, ok := rec.(*record.Grant); ok && grant.Access != "" {
				member := strings.Split(key, "/")[1]
				if !slices.Contains([]string{"a", "b", "c"}, member) || grant.Access != fmt.Sprint("sealed to ", member) || grant.Nonce != s.tokens.Wants[member].Rec.Nonce {
					t.Fatalf("%s gets %+v", member, grant)
				}
			}
		}
	})
}

// An order to a holder that cannot be read is left as it is, and says nothing about the token.
func TestAnOrderThatCannotBeReadIsLeft(t *testing.T) {
	s := keepers()
	s.tokens.Holds["a"] = view.Versioned[record.Hold]{Rev: 11}
	s.want("b", "n1")
	steps, _ := decideTokens(s)
	put := written(steps)
	if grant, _ := put["c/b/desired/tokens/f/want"].(*record.Grant); len(put) != 1 || grant == nil || grant.Reason != record.ReasonNeedsUserToken {
		t.Errorf("written: %s", keysOf(put))
	}
}

// What a holder says instead of a token is told to the member that asked.
func TestAHolderThatGivesNoTokenSaysWhy(t *testing.T) {
	s := keepers()
	s.want("b", "n1")
	p := view.Exchange{Holder: "a", Member: "b"}
	s.tokens.Asks[p] = view.Versioned[record.TokenAsk]{Rec: &record.TokenAsk{V: 1, Nonce: "n1", Recipient: "key-of-b"}, Rev: 21}
	s.tokens.Granted[p] = view.Versioned[record.Grant]{Rec: &record.Grant{V: 1, Nonce: "n1", Reason: record.ReasonNeedsUserToken, Message: "it cannot be sealed"}, Rev: 22}
	steps, _ := decideTokens(s)
	put := written(steps)
	if grant, _ := put["c/b/desired/tokens/f/want"].(*record.Grant); len(put) != 1 || grant == nil || grant.Message != "it cannot be sealed" || grant.Access != "" {
		t.Errorf("written: %s", keysOf(put))
	}
}

// What a member is told is read as it was written: else it would be told again and again.
func TestWhatAMemberIsToldFitsIntoItsRecord(t *testing.T) {
	s := keepers()
	s.want("b", "n1")
	s.tokens.Holdings["a"].Rec.State, s.tokens.Holdings["a"].Rec.Message = record.HoldFailing, strings.Repeat("x", view.MaxReportMessage)
	steps, _ := decideTokens(s)
	grant, _ := written(steps)["c/b/desired/tokens/f/want"].(*record.Grant)
	if grant == nil || grant.Message != view.Sentence(grant.Message) {
		t.Errorf("told: %+v", grant)
	}
}

// The store was restored to an order to delete a token, and another one had been given after that. Its owner is told to
// delete it again: that is a later order.
func TestATokenThatIsKeptIsDeletedByTheNextOrder(t *testing.T) {
	c := &Controller{cfg: Config{Now: func() time.Time { return tokenClock }}}
	order := &record.Hold{V: 1, Order: record.HoldRevoke, Serial: 7, Owner: "alice"}
	for name, tt := range map[string]struct {
		before *record.Hold
		report *record.Holding
		next   bool
	}{
		"none is kept":          {nil, nil, false},
		"it is kept":            {&record.Hold{V: 1, Order: record.HoldKeep, Serial: 7}, &record.Holding{State: record.HoldStored}, true},
		"no word of the holder": {order, nil, false},
		"the vault is away":     {order, &record.Holding{State: record.HoldWaiting}, false},
		"it is deleted":         {order, &record.Holding{State: record.HoldEnded}, false},
		"a later one is kept":   {order, &record.Holding{State: record.HoldWaiting, Reason: record.ReasonAheadOfDesired}, true},
	} {
		next, err := c.revoking("r")(nil, "a", tt.before, tt.report)
		if err != nil || (next != nil) != tt.next {
			t.Errorf("%s: %+v, %v", name, next, err)
		}
		if next != nil && (next.Order != record.HoldRevoke || next.Serial != tokenClock.UnixMilli() || next.RequestID == "") {
			t.Errorf("%s: %+v", name, next)
		}
	}
}
