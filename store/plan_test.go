package store

import (
	"errors"
	"fmt"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"
	"pgregory.net/rapid"
)

// accepted counts as the server does: a transaction may have as many entries in its longest list as it
// is granted, 128, and a child of it that less the longest list of its parent.
func accepted(ops []clientv3.Op, base, granted int) (puts int, ok bool) {
	longest := max(len(ops), base)
	ok = longest <= granted
	for _, op := range ops {
		if !op.IsTxn() {
			puts++
			continue
		}
		_, children, _ := op.Txn()
		n, fits := accepted(children, 0, granted-longest)
		puts, ok = puts+n, ok && fits
	}
	return puts, ok
}

func TestNestIsWhatTheServerTakes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n, base := rapid.OneOf(rapid.IntRange(0, 5000), rapid.IntRange(0, 100_000)).Draw(t, "writes"), rapid.IntRange(0, 128).Draw(t, "base")
		ops, err := nest(make([]clientv3.Op, n), base)
		if err != nil {
			if !errors.Is(err, ErrTooLarge) || n <= capacity(base) {
				t.Fatalf("%d writes, %d compares: %v; the capacity is %d", n, base, err, capacity(base))
			}
			return
		}
		if puts, ok := accepted(ops, base, 128); puts != n || !ok {
			t.Fatalf("%d writes, %d compares: %d writes in %d entries, accepted %v", n, base, puts, len(ops), ok)
		}
	})
	if capacity(0) != 77_658 || capacity(120) != 1920 || capacity(122) != 1098 || capacity(128) != 128 {
		t.Error(capacity(0), capacity(120), capacity(122), capacity(128))
	}
}

// A check counts what a plan would, and room for more as if it was written.
func TestACheckSaysWhatAPlanWould(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		writes, value := rapid.IntRange(0, 5000).Draw(t, "writes"), make([]byte, rapid.IntRange(0, MaxBytes+1).Draw(t, "bytes"))
		more := rapid.SampledFrom([]int{0, 1 << 10, MaxBytes / 2, max(0, MaxBytes-len(value)-writes*(5+2*perOp))}).Draw(t, "more")
		build := func(tx *Txn) {
			for i := range writes {
				tx.Delete(fmt.Sprintf("%05d", i))
			}
			tx.PutBytes("00000", value)
			for i := range rapid.IntRange(0, 200).Draw(t, "expectations") {
				tx.ExpectAbsent(fmt.Sprint(i))
			}
		}
		var planned *Txn
		err := Check(func(tx *Txn) (int, error) {
			build(tx)
			planned = tx
			return more, nil
		})
		planned.PutBytes("00000", make([]byte, len(value)+more))
		_, want := planOf(planned, planned.effective(), nil)
		if want == nil != (err == nil) || err != nil && !errors.Is(err, ErrTooLarge) {
			t.Fatalf("a check says %v, a plan %v", err, want)
		}
	})
}
