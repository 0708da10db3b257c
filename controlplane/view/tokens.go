package view

import (
	"maps"
	"slices"

	"github.com/oscarfed/oscarfed/store"
	"github.com/oscarfed/oscarfed/store/record"
)

// TokenState is what the store has of one federation's tokens: the order to the holder
// and its report, and of each member what it wants, as it was passed on, answered and
// passed back.
type TokenState struct {
	Holds    map[string]Versioned[record.Hold]    // by holder
	Holdings map[string]Versioned[record.Holding] // by holder
	Wants    map[string]Versioned[record.Want]    // by member
	Grants   map[string]Versioned[record.Grant]   // by member
	Asks     map[Exchange]Versioned[record.TokenAsk]
	Granted  map[Exchange]Versioned[record.Grant]
}

// Exchange is between a holder and a member.
type Exchange struct{ Holder, Member string }

// NewTokenState is empty.
func NewTokenState() *TokenState {
	return &TokenState{
		Holds: map[string]Versioned[record.Hold]{}, Holdings: map[string]Versioned[record.Holding]{},
		Wants: map[string]Versioned[record.Want]{}, Grants: map[string]Versioned[record.Grant]{},
		Asks: map[Exchange]Versioned[record.TokenAsk]{}, Granted: map[Exchange]Versioned[record.Grant]{},
	}
}

func (c *TokenState) empty() bool {
	return len(c.Holds)+len(c.Holdings)+len(c.Wants)+len(c.Grants)+len(c.Asks)+len(c.Granted) == 0
}

// Hold is the order to the one holder, and who that is; empty when there is none.
func (c *TokenState) Hold() (holder string, h Versioned[record.Hold]) {
	if c == nil || len(c.Holds) == 0 {
		return "", h
	}
	holder = slices.Min(slices.Collect(maps.Keys(c.Holds)))
	return holder, c.Holds[holder]
}

// applyToken takes over one record about tokens.
func (v *View) applyToken(ref record.Ref, kv store.KV, exists bool) {
	c := v.Tokens[ref.Name]
	if c == nil {
		c = NewTokenState()
		v.Tokens[ref.Name] = c
	}
	switch ref.Kind {
	case record.KindHold:
		setAt(v, c.Holds, ref.Cluster, kv, exists)
	case record.KindHolding:
		setAt(v, c.Holdings, ref.Cluster, kv, exists)
	case record.KindWant:
		setAt(v, c.Wants, ref.Cluster, kv, exists)
	case record.KindGrant:
		setAt(v, c.Grants, ref.Cluster, kv, exists)
	case record.KindTokenAsk:
		setAt(v, c.Asks, Exchange{ref.Cluster, ref.Rest}, kv, exists)
	case record.KindGranted:
		setAt(v, c.Granted, Exchange{ref.Cluster, ref.Rest}, kv, exists)
	default:
	}
	if c.empty() {
		delete(v.Tokens, ref.Name)
	}
}

// setAt is set for any kind of key. A record that cannot be read is as absent, but for
// its revision, without which nothing could be put in its place.
func setAt[K comparable, T any](v *View, m map[K]Versioned[T], key K, kv store.KV, exists bool) {
	if !exists {
		delete(m, key)
		return
	}
	value, _ := decode[T](v, kv, exists)
	m[key] = Versioned[T]{Rec: value, Rev: kv.ModRevision}
}

// WithTokens lists the federations that anything stands of about tokens.
func (v *View) WithTokens(clusters []string) []string {
	if len(clusters) == 0 || len(v.Tokens) == 0 {
		return nil
	}
	var out []string
	for uid, c := range v.Tokens {
		if slices.ContainsFunc(clusters, c.concerns) {
			out = append(out, uid)
		}
	}
	return out
}

func (c *TokenState) concerns(cluster string) bool {
	_, holds := c.Holds[cluster]
	_, wants := c.Wants[cluster]
	return holds || wants
}

// Location is the place of a service.
type Location struct{ Cluster, Service string }
