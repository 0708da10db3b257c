package invariants_test

import (
	"testing"

	"github.com/oscarfed/oscarfed/store/record"
	"github.com/oscarfed/oscarfed/test/invariants"
)

func TestPromise1Batches(t *testing.T) {
	t.Parallel()
	inBatch := func(x *txn, f *federation) {
		edit(x, f.key(), func(fed *record.Federation) { fed.Batch = "f1" })
	}
	run(t, invariants.RuleAtomic, []planted{
		{"one of a batch appears later", func(s *script, f *federation) {
			s.on("f1 create", func(x *txn) { inBatch(x, f) })
			f.create()
			other := s.federation("f2", "two")
			s.on("f2 create", func(x *txn) { inBatch(x, other) })
			other.create()
		}, "of its batch went from", nil},
		{"one of a batch is applied alone", func(s *script, f *federation) {
			s.on("f1 commit", func(x *txn) { inBatch(x, f) })
			other := s.federation("f2", "two")
			other.create()
			s.step("joins the batch", func(x *txn) { inBatch(x, other) })
			f.createdStory()
		}, "of its batch went from", nil},
	})
}
