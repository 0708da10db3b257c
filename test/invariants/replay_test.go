package invariants_test

import (
	"errors"
	"testing"

	"github.com/oscarfed/oscarfed/store"
	"github.com/oscarfed/oscarfed/store/storetest"
	"github.com/oscarfed/oscarfed/test/invariants"
)

// What a replay has read may be compacted, and it misses nothing that follows; what
// was compacted before it was read is no proof.
func TestAReplayAdvancesOverACompaction(t *testing.T) {
	endpoint := storetest.Etcd(t)
	s := storetest.Open(t, store.Config{Endpoints: []string{endpoint}})
	r, err := invariants.NewReplay(invariants.Options{})
	if err != nil {
		t.Fatal(err)
	}
	write := func(value string) {
		t.Helper()
		_, err := s.Update(t.Context(), store.Update{Build: func(_ store.View, tx *store.Txn) error {
			tx.PutBytes("/oscarfed/v1/names/alice/one", []byte(value))
			return nil
		}})
		if err != nil {
			t.Fatal(err)
		}
	}
	write(`{"v":1,"uid":"u1"}`)
	write(`not json`)
	last, err := r.Advance(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	write(`{"v":1,"uid":"u2"}`)
	compact(t, endpoint, last)
	report, err := r.Finish(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	if report.Revisions != 3 || report.Last != last+1 {
		t.Errorf("%d revisions up to %d, want 3 up to %d", report.Revisions, report.Last, last+1)
	}
	seen := false
	for _, v := range report.Violations {
		seen = seen || v.Rule == invariants.RuleRecords && v.Revision == last
	}
	if !seen {
		t.Errorf("the record that cannot be read was not seen: %v", report.Violations)
	}

	late, err := invariants.NewReplay(invariants.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := late.Finish(t.Context(), s); !errors.Is(err, store.ErrCompacted) {
		t.Errorf("a replay that comes too late: %v", err)
	}
}
