package invariants_test

import (
	"testing"
	"time"

	"github.com/oscarfed/oscarfed/store/record"
	"github.com/oscarfed/oscarfed/test/invariants"
)

// invite makes a token for a cluster to join with.
func (s *script) invite(cluster, token string, replace bool) {
	s.t.Helper()
	lease, err := s.store.Grant(s.t.Context(), 10*time.Minute)
	if err != nil {
		s.t.Fatal(err)
	}
	key := record.JoinKey(record.JoinHash(token))
	s.step("invite "+token, func(x *txn) {
		x.put(key, record.Join{V: 1, ClusterID: cluster, ClusterUID: "uid-" + cluster, ReplaceKey: replace, By: owner, IssuedAt: clock, ExpiresAt: clock})
		x.leased[key] = lease
	})
	s.leases[key] = lease
}

// join uses a token with a key.
func (s *script) join(cluster, token, key, kube string) {
	s.step("join "+key, func(x *txn) {
		used := record.JoinKey(record.JoinHash(token))
		useToken(x, used, key)
		x.leased[used] = s.leases[used]
		joinAs(x, cluster, key, kube)
	})
}

func useToken(x *txn, token, key string) {
	edit(x, token, func(j *record.Join) { j.UsedBy = key })
}

func joinAs(x *txn, cluster, key, kube string) {
	edit(x, record.ClusterKey(cluster), func(c *record.Cluster) {
		c.Joined = &record.Joined{Key: key, Recipient: "age-of-" + key, KubeSystemUID: kube, At: clock, ValidUntil: clock}
	})
}

// joinStory: a cluster joins, the answer is lost and given again, it renews, comes
// back with another token, and is replaced by another machine.
func joinStory(s *script) {
	s.invite("a", "one", false)
	s.join("a", "one", "first", "")
	s.step("again", func(x *txn) {
		edit(x, record.ClusterKey("a"), func(c *record.Cluster) { c.Joined.Recipient = "another" })
	})
	s.step("renewed", func(x *txn) {
		edit(x, record.ClusterKey("a"), func(c *record.Cluster) {
			c.Joined.KubeSystemUID, c.Joined.ValidUntil = "kube", record.At(clock.Add(time.Hour))
		})
	})
	s.invite("a", "two", false)
	s.join("a", "two", "first", "kube")
	s.invite("a", "three", true)
	s.join("a", "three", "second", "another kube")
}

func TestAJoinBreaksNothing(t *testing.T) {
	t.Parallel()
	s := newScript(t)
	joinStory(s)
	if report := check(t, s); report.Err() != nil {
		t.Errorf("%v", report.Violations)
	}
}

func TestJoins(t *testing.T) {
	t.Parallel()
	one := record.JoinKey(record.JoinHash("one"))
	spoilt := func(step string, fn func(x *txn)) func(*script, *federation) {
		return func(s *script, _ *federation) {
			s.on(step, fn)
			joinStory(s)
		}
	}
	// extra adds a step to what is told before.
	extra := func(fn func(x *txn), before ...func(s *script)) func(*script, *federation) {
		return func(s *script, _ *federation) {
			s.invite("a", "one", false)
			for _, b := range before {
				b(s)
			}
			s.step("extra", fn)
		}
	}
	joined := func(s *script) { s.join("a", "one", "first", "kube") }
	run(t, invariants.RuleJoins, []planted{
		{"a token that stays", spoilt("invite one", func(x *txn) { delete(x.leased, one) }), "never ends", nil},
		{"a token that stays once it is used", spoilt("join first", func(x *txn) { delete(x.leased, one) }), "never ends", nil},
		{"a token for nobody", spoilt("invite one", func(x *txn) {
			edit(x, one, func(j *record.Join) { j.ClusterUID = "uid-z" })
		}), "which there is not", nil},
		{"a token that is used when it is made", spoilt("invite one", func(x *txn) { useToken(x, one, "first") }), "before it was made", nil},
		{"a second use", extra(func(x *txn) {
			useToken(x, one, "second")
			x.leased[one] = x.s.leases[one]
			joinAs(x, "a", "second", "kube")
		}, joined), "written again", nil},
		{"a use that the registration does not tell", extra(func(x *txn) {
			useToken(x, one, "first")
			x.leased[one] = x.s.leases[one]
		}), "the registration says", nil},
		{"a join with no token", extra(func(x *txn) { joinAs(x, "b", "first", "") }), "with no token", nil},
		{"a join that uses nothing up", extra(func(x *txn) { joinAs(x, "a", "first", "") }), "with no token", nil},
		{"another key without an order", extra(func(x *txn) {
			two := record.JoinKey(record.JoinHash("two"))
			useToken(x, two, "second")
			x.leased[two] = x.s.leases[two]
			joinAs(x, "a", "second", "kube")
		}, joined, func(s *script) { s.invite("a", "two", false) }), "takes the place of first", nil},
		{"another Kubernetes without an order", extra(func(x *txn) { joinAs(x, "a", "first", "another") }, joined), "takes the place of first", nil},
		{"who it is, is forgotten", extra(func(x *txn) {
			edit(x, record.ClusterKey("a"), func(c *record.Cluster) { c.Joined = nil })
		}, joined), "forgotten", nil},
		{"a token becomes an order to replace", extra(func(x *txn) {
			edit(x, one, func(j *record.Join) { j.ReplaceKey, j.UsedBy = true, "first" })
			x.leased[one] = x.s.leases[one]
			joinAs(x, "a", "first", "")
		}), "something else", nil},
	})
}
