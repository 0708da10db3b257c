package invariants_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/oscarfed/oscarfed/store/record"
	"github.com/oscarfed/oscarfed/test/invariants"
)

// planted is a history in which one promise is broken.
type planted struct {
	name string
	// story writes the history; f is a mesh over a, b and c that is not there yet.
	story func(s *script, f *federation)
	// says is a part of what is reported.
	says string
	// also are the other rules that such a history cannot help to break.
	also []invariants.Rule
}

// check writes the history and looks for the rule's own report.
func (p planted) check(t *testing.T, rule invariants.Rule) {
	s := newScript(t)
	p.story(s, s.federation("f1", "one"))
	for step := range s.hooks {
		if !s.hit[step] {
			t.Fatalf("step %q was never written: nothing was planted", step)
		}
	}
	report := check(t, s)
	found := false
	for _, v := range report.Violations {
		switch {
		case v.Rule == rule:
			found = found || strings.Contains(v.String(), p.says)
		case !slices.Contains(p.also, v.Rule):
			t.Errorf("another rule is broken: %s", v)
		}
	}
	for _, other := range p.also {
		if !slices.ContainsFunc(report.Violations, func(v invariants.Violation) bool { return v.Rule == other }) {
			t.Errorf("rule %q is not broken", other)
		}
	}
	if !found {
		t.Errorf("nothing about %q in %v", p.says, report.Violations)
	}
	if report.Err() == nil {
		t.Error("the report has no error")
	}
}

func run(t *testing.T, rule invariants.Rule, cases []planted) {
	t.Helper()
	for _, p := range cases {
		t.Run(p.name, func(t *testing.T) {
			t.Parallel()
			p.check(t, rule)
		})
	}
}

// spoil spoils a step of f1 and then tells a whole life.
func spoil(step string, fn func(x *txn, f *federation)) func(*script, *federation) {
	return func(s *script, f *federation) {
		s.on("f1 "+step, func(x *txn) { fn(x, f) })
		f.createdStory()
		f.deletedStory()
	}
}

// spoilRollback does the same to a creation that is rolled back.
func spoilRollback(step string, fn func(x *txn, f *federation)) func(*script, *federation) {
	return func(s *script, f *federation) {
		s.on("f1 "+step, func(x *txn) { fn(x, f) })
		f.rolledBackStory()
	}
}

// afterwards adds a step after a creation.
func afterwards(steps ...func(x *txn, f *federation)) func(*script, *federation) {
	return func(s *script, f *federation) {
		f.createdStory()
		for _, fn := range steps {
			s.step("extra", func(x *txn) { fn(x, f) })
		}
	}
}

func desired(x *txn, r replica, fn func(*record.Desired)) { edit(x, r.desired(), fn) }
