package store

import (
	"cmp"
	"fmt"
	"slices"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// Limits of an etcd server with its default settings. They are checked before
// anything is sent, because the answer to a request that is too large depends on
// which layer sees it first.
const (
	// maxOps is the most comparisons, operations or reads of one transaction.
	maxOps = 128
	// MaxBytes is the most bytes of one transaction; the server takes 1.5 MiB, its
	// own envelope included.
	MaxBytes = 1_400_000
	// perOp is more than protobuf adds to the bytes of one operation.
	perOp = 48
)

// plan is a transaction made ready for etcd.
type plan struct {
	compares []clientv3.Cmp
	writes   []clientv3.Op
	// reads are the keys that a failed transaction returns.
	reads []string
	// puts are the keys that it writes.
	puts []string
	// expects are kept to decide later whether the plan can still be applied.
	expects []expectation
}

// planOf checks the limits and lays the writes out: as they are up to 128, in
// child transactions beyond. The keys of all expectations are read on failure,
// so that the next try, or the error, knows which did not hold.
func planOf(tx *Txn, writes []write, keys []string) (*plan, error) {
	p := &plan{reads: tx.reads(keys), expects: tx.expects}
	if err := checkSize(p, writes, 0); err != nil {
		return nil, err
	}
	for _, e := range tx.expects {
		p.compares = append(p.compares, e.compare())
	}
	ops := make([]clientv3.Op, len(writes))
	for i, w := range writes {
		ops[i] = w.op()
		if !w.delete {
			p.puts = append(p.puts, w.key)
		}
	}
	var err error
	p.writes, err = nest(ops, max(len(p.compares), len(p.reads)))
	return p, err
}

// reads are these keys, and those of all expectations.
func (tx *Txn) reads(keys []string) []string {
	out := slices.Clone(keys)
	for _, e := range tx.expects {
		if !e.ofPrefix() && !slices.Contains(out, e.key) {
			out = append(out, e.key)
		}
	}
	return out
}

// checkSize says whether a plan with these writes, and some bytes more, is small enough for one request, apart from how
// the writes are nested.
func checkSize(p *plan, writes []write, more int) error {
	size := more
	for _, e := range p.expects {
		size += len(e.key) + perOp
	}
	for _, key := range p.reads {
		size += len(key) + perOp
	}
	for _, w := range writes {
		size += len(w.key) + len(w.value) + 2*perOp // twice, for a share in a child's envelope
	}
	switch {
	case len(p.expects) > maxOps:
		return fmt.Errorf("%w: %d comparisons, at most %d are possible", ErrTooLarge, len(p.expects), maxOps)
	case len(p.reads) > maxOps:
		return fmt.Errorf("%w: %d keys are read, at most %d are possible", ErrTooLarge, len(p.reads), maxOps)
	case size > MaxBytes:
		return fmt.Errorf("%w: up to %d bytes, at most %d are possible", ErrTooLarge, size, MaxBytes)
	}
	return nil
}

// Check says whether a transaction of writes that build makes keeps to the limits of etcd, with room for as many bytes
// more as build says: nil, or ErrTooLarge with its size. Nothing is read for it, and nothing is sent.
func Check(build func(tx *Txn) (more int, err error)) error {
	tx := newTxn(View{}, "")
	more, err := build(tx)
	if err = cmp.Or(err, tx.err); err != nil {
		return err
	}
	p, writes := &plan{reads: tx.reads(nil), expects: tx.expects}, tx.effective()
	if err := checkSize(p, writes, more); err != nil {
		return err
	}
	_, err = children(len(writes), max(len(p.expects), len(p.reads)))
	return err
}

// nest packs operations into child transactions when they are more than the
// server takes in one list; base is the longest of the parent's other lists.
func nest(ops []clientv3.Op, base int) ([]clientv3.Op, error) {
	n, err := children(len(ops), base)
	if n == 0 || err != nil {
		return ops, err
	}
	room := maxOps - max(base, n)
	out := inChildren(ops, n)
	for i, child := range out {
		if _, part, _ := child.Txn(); len(part) > room {
			out[i] = clientv3.OpTxn(nil, inChildren(part, room/2), nil)
		}
	}
	return out, nil
}

// inChildren deals operations out to n child transactions.
func inChildren(ops []clientv3.Op, n int) (out []clientv3.Op) {
	for part := range slices.Chunk(ops, (len(ops)+n-1)/n) {
		out = append(out, clientv3.OpTxn(nil, part, nil))
	}
	return out
}

// children is how many child transactions that many writes take; 0 when they need none. The server grants each child 128
// operations less the longest list of the parent, where base is the longest of the parent's other lists. So it is with
// the children of a child: they are made when the writes have no place otherwise.
func children(writes, base int) (int, error) {
	if writes <= maxOps {
		return 0, nil
	}
	for _, holds := range []func(room int) int{flat, nested} {
		for n := 2; n < maxOps; n++ {
			if (writes+n-1)/n <= holds(maxOps-max(base, n)) {
				return n, nil
			}
		}
	}
	return 0, fmt.Errorf("%w: %d writes with %d comparisons or reads, the server takes no more than %d",
		ErrTooLarge, writes, base, capacity(base))
}

// flat and nested are how many operations a child transaction holds that the server grants so many: as they are, and in
// children of its own.
func flat(room int) int { return room }

func nested(room int) int { return max(room, room/2*(room-room/2)) }

// capacity is the most writes that nest can place beside base comparisons or reads.
func capacity(base int) int {
	most := maxOps
	for n := 2; n < maxOps; n++ {
		most = max(most, n*nested(maxOps-max(base, n)))
	}
	return most
}

// ofPrefix says that the key stands for all keys that begin with it.
func (e expectation) ofPrefix() bool { return e.kind == expectEmpty || e.kind == expectUnwritten }

func (e expectation) compare() clientv3.Cmp {
	switch e.kind {
	case expectSession:
		return clientv3.Compare(clientv3.CreateRevision(e.key), "=", e.revision)
	case expectEmpty:
		return clientv3.Compare(clientv3.CreateRevision(e.key), "=", 0).WithPrefix()
	case expectUnwritten:
		return clientv3.Compare(clientv3.ModRevision(e.key), "<", e.revision+1).WithPrefix()
	}
	return clientv3.Compare(clientv3.ModRevision(e.key), "=", e.revision)
}

func (w write) op() clientv3.Op {
	switch {
	case w.prefix:
		return clientv3.OpDelete(w.key, clientv3.WithPrefix())
	case w.delete:
		return clientv3.OpDelete(w.key)
	case w.lease != 0:
		return clientv3.OpPut(w.key, string(w.value), clientv3.WithLease(clientv3.LeaseID(w.lease)))
	}
	return clientv3.OpPut(w.key, string(w.value))
}

// hopeless says whether the plan, seen from a later view, can never be applied
// any more: it compares a revision that a key has left behind. An absent key may
// become absent again, so that comparison proves nothing.
func (p *plan) hopeless(v View) bool {
	for _, e := range p.expects {
		if e.revision == 0 || !v.read(e.key) {
			continue
		}
		kv, _ := v.KV(e.key)
		if e.kind == expectSession && kv.CreateRevision != e.revision ||
			e.kind == expectMod && kv.ModRevision != e.revision {
			return true
		}
	}
	return false
}

// gets are the reads of the failed branch.
func (p *plan) gets() []clientv3.Op {
	out := make([]clientv3.Op, len(p.reads))
	for i, key := range p.reads {
		out[i] = clientv3.OpGet(key)
	}
	return out
}
