package invariants_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/oscarfed/oscarfed/store"
	"github.com/oscarfed/oscarfed/store/record"
	"github.com/oscarfed/oscarfed/store/storetest"
	"github.com/oscarfed/oscarfed/test/invariants"
)

// canary is a secret that stands in none of the histories unless a test plants it.
const canary = `s3cret "canary" / of the test`

func options() invariants.Options {
	return invariants.Options{Secrets: []string{canary}, Fenced: true}
}

func check(t *testing.T, s *script) *invariants.Report {
	t.Helper()
	report, err := invariants.CheckStore(t.Context(), s.store, options())
	if err != nil {
		t.Fatal(err)
	}
	// Looking only at what a revision concerns must not overlook anything.
	all, err := invariants.CheckStore(t.Context(), s.store, options().Everything())
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(lines(all), lines(report)); diff != "" {
		t.Errorf("-by looking at everything +by looking at what is concerned\n%s", diff)
	}
	return report
}

func lines(r *invariants.Report) []string {
	out := []string{}
	for _, v := range r.Violations {
		out = append(out, v.String())
	}
	slices.Sort(out)
	return out
}

// everything is a history in which nothing is wrong.
func everything(s *script) {
	one := s.federation("f1", "one").createdStory()
	s.federation("f2", "two").refusedStory().forget()
	s.federation("f3", "three").rolledBackStory()
	s.federation("f4", "four").bestEffortStory().bury(record.PhaseDeleting, record.CauseDeleted)
	s.federation("f5", "five").joinedStory()
	one.deletedStory()
	one.orphanStory("b")
	s.federation("f10", "ten").shrinkingStory("c")
	grown := s.federation("f11", "eleven")
	grown.growingStory("d")
	grown.bury(record.PhaseDeleting, record.CauseDeleted)
	dropped := s.federation("f12", "twelve").createdStory()
	asked := dropped.propose("d", "f12-d", 2)
	dropped.step("deleted while it waits", func(x *txn) {
		dropped.take(x, asked)
		x.remove(asked.specOf(2))
		x.remove(record.HistoryKey("f12", 2))
		x.remove(record.SecretsKey("f12", 2))
		dropped.answer(x, record.PhaseDeleting)
		edit(x, dropped.key(), func(fed *record.Federation) { fed.Change = nil })
	})
	again := s.federation("f6", "one") // the same name and places, another life
	again.topology, again.left = "star", map[string][]string{"a": {"one"}}
	again.createdStory()
	none := s.federation("f7", "seven")
	none.topology = "none"
	none.createdStory()
	tree := s.federation("f8", "eight")
	tree.topology = "tree"
	tree.createdStory()
	away := s.federation("f9", "nine").createdStory() // c is away for a while
	away.bury(record.PhaseDeleting, record.CauseDeleted)
	away.acknowledge("a", "b")
	away.late("a", record.CauseDeleted)
	away.late("b", record.CauseDeleted)
	away.acknowledge("c")
	away.forget("c")
	s.step("session ends", func(x *txn) { x.remove(record.SessionKey("c")) })
	s.step("last seen", func(x *txn) {
		edit(x, record.ClusterKey("c"), func(c *record.Cluster) { c.LastSeen = &clock })
	})
}

func TestACleanHistoryPasses(t *testing.T) {
	s := newScript(t)
	everything(s)
	report := check(t, s)
	if err := report.Err(); err != nil {
		t.Error(err)
	}
	if report.Revisions < 90 {
		t.Errorf("only %d revisions were checked", report.Revisions)
	}
	// Revision 1 is that of an empty store, and each step makes one more.
	if report.Revisions != report.Last-1 {
		t.Errorf("%d revisions were checked up to revision %d", report.Revisions, report.Last)
	}
}

func TestCostsAreCounted(t *testing.T) {
	s := newScript(t)
	f1 := s.federation("f1", "one").createdStory()
	f1.deletedStory()
	s.federation("f2", "two").refusedStory()
	s.federation("f3", "three").joinedStory()
	s.federation("f4", "two").createdStory() // where a result of f2 is still kept
	report := check(t, s)
	const n = 3
	want := map[string]invariants.Cost{
		"f1": {Create: 2*n + 3, Delete: n + 2},
		"f2": {Create: 4},                  // create, two votes, abort
		"f3": {Create: n + 2, Life: n + 2}, // of best effort: B is the outcome, then b votes again and joins
		"f4": {Create: 2*n + 3},
	}
	got := map[string]invariants.Cost{}
	for _, uid := range report.Federations() {
		got[uid] = report.CostOf(uid)
		if c := got[uid]; len(report.RevisionsOf(uid)) != c.Create+c.Life+c.Delete {
			t.Errorf("%s: %d revisions, cost %+v", uid, len(report.RevisionsOf(uid)), c)
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if report.RevisionsOf("f99") != nil || report.CostOf("f99") != (invariants.Cost{}) {
		t.Error("a federation that never was has cost something")
	}
}

func TestNothingCheckedIsAFailure(t *testing.T) {
	endpoint := storetest.Etcd(t)
	report, err := invariants.Check(t.Context(), endpoint, invariants.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if !errors.Is(report.Err(), invariants.ErrNothingChecked) {
		t.Errorf("got %v", report.Err())
	}
}

func TestACompactedHistoryCannotBeChecked(t *testing.T) {
	s := newScript(t)
	compact(t, s.endpoint, 3)
	if _, err := invariants.Check(t.Context(), s.endpoint, invariants.Options{}); !errors.Is(err, store.ErrCompacted) {
		t.Errorf("got %v, want ErrCompacted", err)
	}
}

func TestSeveralMembers(t *testing.T) {
	s := newScript(t)
	gone := "http://127.0.0.1:1" // nobody listens there
	report, err := invariants.Check(t.Context(), s.endpoint+","+gone, options())
	if err != nil {
		t.Fatal(err)
	}
	if err := report.Err(); err != nil {
		t.Error(err)
	}
}

func TestAShortSecretIsRefused(t *testing.T) {
	if _, err := invariants.Check(t.Context(), storetest.Etcd(t), invariants.Options{Secrets: []string{"short"}}); err == nil {
		t.Error("a secret of 5 bytes would be found everywhere")
	}
}

func TestGuardFailsTheTestAtItsEnd(t *testing.T) {
	guard := func(endpoint string) *recorder {
		r := &recorder{TB: t}
		invariants.Guard(r, endpoint, options())
		return r
	}
	t.Run("clean", func(t *testing.T) {
		s := newScript(t)
		g := guard(s.endpoint)
		s.federation("f1", "one").createdStory()
		if errs := g.end(); len(errs) > 0 {
			t.Error(errs)
		}
	})
	t.Run("broken", func(t *testing.T) {
		s := newScript(t)
		g := guard(s.endpoint)
		f := s.federation("f1", "one")
		s.on("f1 create", func(x *txn) { x.leave(f.at("b").desired()) })
		f.create()
		if errs := g.end(); len(errs) != 1 {
			t.Errorf("want one violation, got %v", errs)
		}
	})
	t.Run("very broken", func(t *testing.T) {
		s := newScript(t)
		g := guard(s.endpoint)
		s.step("garbage", func(x *txn) {
			for i := range 50 {
				x.raw(record.RequestKey(fmt.Sprint(i)), "garbage")
			}
		})
		errs := g.end()
		if len(errs) != 41 || !strings.Contains(errs[40], "10 more") {
			t.Errorf("%d lines, the last: %s", len(errs), errs[len(errs)-1])
		}
	})
	t.Run("broken on purpose", func(t *testing.T) {
		s := newScript(t)
		forgiving, strict := &recorder{TB: t}, &recorder{TB: t}
		opts := options()
		opts.Breaks = []invariants.Rule{invariants.RuleAtomic}
		invariants.Guard(forgiving, s.endpoint, opts)
		opts.Breaks = []invariants.Rule{invariants.RuleAtomic, invariants.RuleVotes}
		invariants.Guard(strict, s.endpoint, opts)
		f := s.federation("f1", "one")
		s.on("f1 create", func(x *txn) { x.leave(f.at("b").desired()) })
		f.create()
		if errs := forgiving.end(); len(errs) > 0 {
			t.Error(errs)
		}
		if errs := strict.end(); len(errs) != 1 || !strings.Contains(errs[0], string(invariants.RuleVotes)) {
			t.Errorf("want one failure for what was not broken, got %v", errs)
		}
	})
	t.Run("nothing happened", func(t *testing.T) {
		if errs := guard(storetest.Etcd(t)).end(); len(errs) != 1 {
			t.Errorf("want one failure, got %v", errs)
		}
	})
	t.Run("compacted", func(t *testing.T) {
		s := newScript(t)
		g := guard(s.endpoint)
		compact(t, s.endpoint, 5)
		if errs := g.end(); len(errs) != 1 {
			t.Errorf("want one failure, got %v", errs)
		}
	})
}
