package controlplane

import (
	"maps"
	"slices"

	"github.com/oscarfed/oscarfed/store"
	"github.com/oscarfed/oscarfed/store/record"
)

// custody is what the store has of one federation's tokens: the order to the holder
// and its report, and of each member what it wants, as it was passed on, answered and
// passed back.
type custody struct {
	holds    map[string]versioned[record.Hold]    // by holder
	holdings map[string]versioned[record.Holding] // by holder
	wants    map[string]versioned[record.Want]    // by member
	grants   map[string]versioned[record.Grant]   // by member
	asks     map[passage]versioned[record.TokenAsk]
	granted  map[passage]versioned[record.Grant]
}

// passage is between a holder and a member.
type passage struct{ holder, member string }

func newCustody() *custody {
	return &custody{
		holds: map[string]versioned[record.Hold]{}, holdings: map[string]versioned[record.Holding]{},
		wants: map[string]versioned[record.Want]{}, grants: map[string]versioned[record.Grant]{},
		asks: map[passage]versioned[record.TokenAsk]{}, granted: map[passage]versioned[record.Grant]{},
	}
}

func (c *custody) empty() bool {
	return len(c.holds)+len(c.holdings)+len(c.wants)+len(c.grants)+len(c.asks)+len(c.granted) == 0
}

// hold is the order to the one holder, and who that is; empty when there is none.
func (c *custody) hold() (holder string, h versioned[record.Hold]) {
	if c == nil || len(c.holds) == 0 {
		return "", h
	}
	holder = slices.Min(slices.Collect(maps.Keys(c.holds)))
	return holder, c.holds[holder]
}

// applyToken takes over one record about tokens.
func (v *View) applyToken(ref record.Ref, kv store.KV, exists bool) {
	c := v.custody[ref.Name]
	if c == nil {
		c = newCustody()
		v.custody[ref.Name] = c
	}
	switch ref.Kind {
	case record.KindHold:
		setAt(v, c.holds, ref.Cluster, kv, exists)
	case record.KindHolding:
		setAt(v, c.holdings, ref.Cluster, kv, exists)
	case record.KindWant:
		setAt(v, c.wants, ref.Cluster, kv, exists)
	case record.KindGrant:
		setAt(v, c.grants, ref.Cluster, kv, exists)
	case record.KindTokenAsk:
		setAt(v, c.asks, passage{ref.Cluster, ref.Rest}, kv, exists)
	case record.KindGranted:
		setAt(v, c.granted, passage{ref.Cluster, ref.Rest}, kv, exists)
	default:
	}
	if c.empty() {
		delete(v.custody, ref.Name)
	}
}

// setAt is set for any kind of key. A record that cannot be read is as absent, but for
// its revision, without which nothing could be put in its place.
func setAt[K comparable, T any](v *View, m map[K]versioned[T], key K, kv store.KV, exists bool) {
	if !exists {
		delete(m, key)
		return
	}
	value, _ := decode[T](v, kv, exists)
	m[key] = versioned[T]{rec: value, rev: kv.ModRevision}
}

// inCustody lists the federations that anything stands of about tokens.
func (v *View) inCustody(clusters []string) []string {
	if len(clusters) == 0 || len(v.custody) == 0 {
		return nil
	}
	var out []string
	for uid, c := range v.custody {
		if slices.ContainsFunc(clusters, c.concerns) {
			out = append(out, uid)
		}
	}
	return out
}

func (c *custody) concerns(cluster string) bool {
	_, holds := c.holds[cluster]
	_, wants := c.wants[cluster]
	return holds || wants
}

// custodyOf is the situation of a federation's tokens; false when nothing stands of them.
func (v *View) custodyOf(uid string) (tokenSituation, bool) {
	c, ok := v.custody[uid]
	if !ok {
		return tokenSituation{}, false
	}
	out := tokenSituation{uid: uid, custody: c, holderAlive: map[string]bool{}, recipients: map[string]string{}}
	if f, ok := v.federations[uid]; ok {
		out.fed, out.fedRev = f.rec, f.rev
	}
	for holder := range c.holds {
		out.holderAlive[holder] = v.alive(holder)
	}
	for member := range c.wants {
		out.recipients[member] = v.recipient(member)
	}
	// The maps change when the state does.
	out.custody = &custody{
		holds: maps.Clone(c.holds), holdings: maps.Clone(c.holdings), wants: maps.Clone(c.wants),
		grants: maps.Clone(c.grants), asks: maps.Clone(c.asks), granted: maps.Clone(c.granted),
	}
	return out, true
}
