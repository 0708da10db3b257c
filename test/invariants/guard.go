package invariants

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"testing"

	"github.com/oscarfed/oscarfed/store"
	"github.com/oscarfed/oscarfed/store/record"
	"github.com/oscarfed/oscarfed/test/await"
)

// Limits of a guard.
const (
	guardTimeout = await.Limit
	// guardLines is how many violations are shown; the rest is counted.
	guardLines = 40
)

// Guard checks, when the test is over, every revision that the etcd at endpoint (as
// for Check) has seen, and fails the test for each violation and when there was
// nothing to check. Call it right after the server was started: what is started
// later is then stopped before the check.
func Guard(t testing.TB, endpoint string, opts Options) {
	t.Helper()
	guard(t, func(ctx context.Context) (*Report, error) { return Check(ctx, endpoint, opts) }, opts)
}

// GuardRestored is Guard for an etcd that was just restored from a backup: what
// stands in it now is where its history begins.
func GuardRestored(t testing.TB, endpoint string, opts Options) {
	t.Helper()
	s, err := store.Open(t.Context(), opts.reach(store.Config{Endpoints: []string{endpoint}, Logger: slog.New(slog.DiscardHandler)}))
	if err != nil {
		t.Fatal(err)
	}
	stood, at, err := s.List(t.Context(), record.Root)
	if err != nil {
		t.Fatal(errors.Join(err, s.Close()))
	}
	guard(t, func(ctx context.Context) (*Report, error) {
		report, err := checkFrom(ctx, s, opts, stood, at)
		return report, errors.Join(err, s.Close())
	}, opts)
}

func guard(t testing.TB, check func(context.Context) (*Report, error), opts Options) {
	t.Helper()
	t.Cleanup(func() {
		t.Helper()
		ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), guardTimeout)
		defer cancel()
		report, err := check(ctx)
		if err != nil {
			t.Errorf("the promises could not be checked: %v", err)
			return
		}
		report.tell(t, opts.Breaks)
	})
}

// Tell fails a test for each violation of the report, and when nothing was checked.
func (r *Report) Tell(t testing.TB) {
	t.Helper()
	r.tell(t, nil)
}

// tell fails a test for what was found, but for what it breaks itself.
func (r *Report) tell(t testing.TB, breaks []Rule) {
	t.Helper()
	if r.Revisions == 0 {
		t.Error(ErrNothingChecked)
		return
	}
	for _, rule := range breaks {
		if !slices.ContainsFunc(r.Violations, func(v Violation) bool { return v.Rule == rule }) {
			t.Errorf("the test was to break rule %q, and nothing of it was seen", rule)
		}
	}
	told := slices.DeleteFunc(slices.Clone(r.Violations), func(v Violation) bool { return slices.Contains(breaks, v.Rule) })
	for i, v := range told {
		if i == guardLines {
			t.Errorf("and %d more violations", len(told)-i)
			break
		}
		t.Error(v)
	}
	t.Logf("promises checked at %d revisions, up to revision %d: %d violations, %d of them on purpose",
		r.Revisions, r.Last, len(r.Violations), len(r.Violations)-len(told))
}
