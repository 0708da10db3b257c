package store

import (
	"errors"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"
	"pgregory.net/rapid"
)

// accepted counts as the server does: a transaction may have 128 entries in its
// longest list, and a child 128 less the longest list of its parent.
func accepted(ops []clientv3.Op, base int) (puts int, ok bool) {
	longest := max(len(ops), base)
	ok = longest <= 128
	for _, op := range ops {
		if !op.IsTxn() {
			puts++
			continue
		}
		_, children, _ := op.Txn()
		puts += len(children)
		ok = ok && len(children) <= 128-longest
	}
	return puts, ok
}

func TestNestIsWhatTheServerTakes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n, base := rapid.IntRange(0, 5000).Draw(t, "writes"), rapid.IntRange(0, 128).Draw(t, "base")
		ops, err := nest(make([]clientv3.Op, n), base)
		if err != nil {
			if !errors.Is(err, ErrTooLarge) || n <= capacity(base) {
				t.Fatalf("%d writes, %d compares: %v; the capacity is %d", n, base, err, capacity(base))
			}
			return
		}
		if puts, ok := accepted(ops, base); puts != n || !ok {
			t.Fatalf("%d writes, %d compares: %d writes in %d entries, accepted %v", n, base, puts, len(ops), ok)
		}
	})
	if capacity(0) != 4096 || capacity(120) != 960 || capacity(128) != 128 {
		t.Error(capacity(0), capacity(120), capacity(128))
	}
}
