package view

import (
	"slices"
	"testing"
	"time"

	"github.com/oscarfed/oscarfed/store/record"
)

// TestWhoWaitsForAToken: members wait that have asked and have no usable token, also when no
// cluster holds a refresh token. The federation is over a (the coordinator), b and c; a holds
// its token.
func TestWhoWaitsForAToken(t *testing.T) {
	fed := &record.Federation{UID: "f", Phase: record.PhaseReady, Members: []record.Member{
		{ClusterID: "a", ServiceName: "s0", UID: "f-a", Coordinator: true}, {ClusterID: "b", ServiceName: "s1", UID: "f-b"},
		{ClusterID: "c", ServiceName: "s2", UID: "f-c"}, {Type: "endpoint", URL: "https://e"},
	}}
	shown := func(change func(*TokenState)) *RefreshToken {
		s := NewTokenState()
		s.Holds["a"] = Versioned[record.Hold]{Rec: &record.Hold{V: 1, Order: record.HoldKeep, Serial: 7, Owner: "alice"}, Rev: 11}
		s.Holdings["a"] = Versioned[record.Holding]{Rec: &record.Holding{V: 1, State: record.HoldStored, Serial: 7}, Rev: 12}
		change(s)
		v := &View{Tokens: TokenStates{map[string]*TokenState{"f": s}}}
		return v.TokenOf(fed, 24*time.Hour)
	}
	want := func(s *TokenState, member string) {
		s.Wants[member] = Versioned[record.Want]{Rec: &record.Want{V: 1, Nonce: "n"}, Rev: 20}
	}
	grant := func(s *TokenState, member string, g record.Grant) {
		s.Grants[member] = Versioned[record.Grant]{Rec: &g, Rev: 21}
	}
	for name, c := range map[string]struct {
		change func(*TokenState)
		state  string
		want   []string
	}{
		"no member": {func(*TokenState) {}, TokenStored, nil},
		"a member without an answer, and no stranger": {func(s *TokenState) { want(s, "b"); want(s, "x") }, TokenStored, []string{"b/s1"}},
		"a member with a grant, and one that was refused": {func(s *TokenState) {
			want(s, "b")
			grant(s, "b", record.Grant{V: 1, Nonce: "n", Access: "sealed", Expires: new(record.At(time.Now()))})
			want(s, "c")
			grant(s, "c", record.Grant{V: 1, Nonce: "n", Reason: record.ReasonTokenLost})
		}, TokenStored, []string{"c/s2"}},
		"a member, and no cluster holds a token": {func(s *TokenState) { clear(s.Holds); want(s, "b") }, TokenNone, []string{"b/s1"}},
	} {
		if got := shown(c.change); got == nil || got.State != c.state || !slices.Equal(got.Waiting, c.want) {
			t.Errorf("%s: %+v, want %s, %v", name, got, c.state, c.want)
		}
	}
	if got := shown(func(s *TokenState) { clear(s.Holds) }); got != nil {
		t.Errorf("there is none, and it shows %+v", got)
	}
}
