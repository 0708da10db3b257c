package view

import (
	"maps"
	"slices"

	"github.com/oscarfed/oscarfed/store"
	"github.com/oscarfed/oscarfed/store/record"
)

// TokenStates has the token state of each federation that has any. A reader gets copies.
type TokenStates struct{ m map[string]*TokenState }

// Has says whether a federation has any token records.
func (t TokenStates) Has(uid string) bool { return t.m[uid] != nil }

// Kept says whether a holder is asked to keep a refresh token of a federation.
func (t TokenStates) Kept(uid string) bool {
	if c := t.m[uid]; c != nil {
		for _, h := range c.Holds {
			if h.Rec != nil && h.Rec.Order == record.HoldKeep {
				return true
			}
		}
	}
	return false
}

// Get is a copy of the token state of a federation; nil when there is none.
func (t TokenStates) Get(uid string) *TokenState {
	c := t.m[uid]
	if c == nil {
		return nil
	}
	return &TokenState{
		Holds: maps.Clone(c.Holds), Holdings: maps.Clone(c.Holdings), Wants: maps.Clone(c.Wants),
		Grants: maps.Clone(c.Grants), Asks: maps.Clone(c.Asks), Granted: maps.Clone(c.Granted),
	}
}

// Hold is the cluster that is ordered to hold a federation's token, and the order to it; both
// are empty when there is none.
func (t TokenStates) Hold(uid string) (holder string, h Versioned[record.Hold]) {
	return t.m[uid].Hold()
}

// HeldAt counts the federations with an order to hold a token to a cluster.
func (t TokenStates) HeldAt(cluster string) (n int) {
	for _, c := range t.m {
		if _, holds := c.Holds[cluster]; holds {
			n++
		}
	}
	return n
}

// HeldBy are the federations with an order to hold a token to a cluster.
func (t TokenStates) HeldBy(cluster string) (uids []string) {
	for uid, c := range t.m {
		if _, holds := c.Holds[cluster]; holds {
			uids = append(uids, uid)
		}
	}
	slices.Sort(uids)
	return uids
}

// TokenState is the state of one federation's tokens in the store: the order to the holder and
// its report, and for each member its want, the ask that was passed on, the answer, and the
// grant that was passed back.
type TokenState struct {
	Holds    map[string]Versioned[record.Hold]    // by holder
	Holdings map[string]Versioned[record.Holding] // by holder
	Wants    map[string]Versioned[record.Want]    // by member
	Grants   map[string]Versioned[record.Grant]   // by member
	Asks     map[Exchange]Versioned[record.TokenAsk]
	Granted  map[Exchange]Versioned[record.Grant]
}

// Exchange identifies a token exchange between a holder and a member.
type Exchange struct{ Holder, Member string }

// NewTokenState makes an empty TokenState.
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

// Hold is the holder and the order to it; both are empty when there is none.
func (c *TokenState) Hold() (holder string, h Versioned[record.Hold]) {
	if c == nil || len(c.Holds) == 0 {
		return "", h
	}
	holder = slices.Min(slices.Collect(maps.Keys(c.Holds)))
	return holder, c.Holds[holder]
}

// applyToken takes over one record about tokens.
func (v *View) applyToken(ref record.Ref, kv store.KV, exists bool) {
	v.news.Federations[ref.Name] = true
	c := v.Tokens.m[ref.Name]
	if c == nil {
		c = NewTokenState()
		v.Tokens.m[ref.Name] = c
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
		delete(v.Tokens.m, ref.Name)
	}
}

// setAt is set, but a record that cannot be read keeps its revision, so that a new one can be
// written over it.
func setAt[K comparable, T any](v *View, m map[K]Versioned[T], key K, kv store.KV, exists bool) {
	if !exists {
		delete(m, key)
		return
	}
	value, _ := decode[T](v, kv, exists)
	m[key] = Versioned[T]{Rec: value, Rev: kv.ModRevision}
}

// WithTokens lists the federations that have token records on one of the clusters. What a cluster wants of others, which
// are none, is not looked at again with each change of the cluster: it can be very much.
func (v *View) WithTokens(clusters []string) []string {
	if len(clusters) == 0 || len(v.Tokens.m) == 0 {
		return nil
	}
	var out []string
	for uid, c := range v.Tokens.m {
		if _, there := v.Federations.m[uid]; there && slices.ContainsFunc(clusters, c.concerns) {
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
