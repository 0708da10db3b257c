package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/oscarfed/oscarfed/store/record"
)

// relayed is one relay: how long after its start each step was seen.
type relayed struct {
	// transaction is A alone, from its sending to its answer; staged the ones before it.
	transaction, staged time.Duration
	// accepted, decided and applied are as those of a timeline.
	accepted, decided, applied time.Duration
}

// relay is the floor of a creation: the transactions of a real one with their
// compares, operations and bytes, and between them nothing but watches. The bare
// clients of the fleet vote and report, one transaction each.
func (o *observer) relay(ctx context.Context, like *timeline, members int) (relayed, error) {
	var r relayed
	o.forget(true)
	began := time.Now()
	for _, events := range like.staged {
		if _, err := o.write(ctx, events, false); err != nil {
			return r, err
		}
	}
	sent := time.Now()
	r.staged = sent.Sub(began)
	a, err := o.write(ctx, like.a, true)
	if err != nil {
		return r, err
	}
	r.transaction = time.Since(sent)
	if r.accepted, err = o.await(ctx, began, func(e seen) bool { return e.rev == a }); err != nil {
		return r, err
	}
	answers := func(want int) func(seen) bool {
		n := 0
		return func(e seen) bool {
			if strings.HasPrefix(e.key, bareRoot+"c/") && strings.Contains(e.key, "/observed/") {
				n++
			}
			return n == want
		}
	}
	if _, err = o.await(ctx, began, answers(members)); err != nil {
		return r, fmt.Errorf("votes of the relay: %w", err)
	}
	b, err := o.write(ctx, like.b, false)
	if err != nil {
		return r, err
	}
	if r.decided, err = o.await(ctx, began, func(e seen) bool { return e.rev == b }); err != nil {
		return r, err
	}
	if r.applied, err = o.await(ctx, began, answers(2*members)); err != nil {
		return r, fmt.Errorf("reports of the relay: %w", err)
	}
	_, err = o.client.Delete(ctx, bareRoot, clientv3.WithPrefix())
	if err != nil {
		return r, err
	}
	// The control plane does not watch the bare root, and would have to ask how far
	// it is behind: something that it watches is written last.
	last, err := o.client.Put(ctx, record.Root+"bench", "")
	if err != nil {
		return r, err
	}
	_, err = o.await(ctx, began, func(e seen) bool { return e.rev == last.Header.Revision })
	return r, err
}

func (o *observer) await(ctx context.Context, began time.Time, ok func(seen) bool) (time.Duration, error) {
	var at time.Time
	err := o.follow(ctx, func(e seen) bool {
		at = e.at
		return ok(e)
	})
	return at.Sub(began), err
}

const (
	// maxOps is how many operations etcd takes in one transaction, and childOps how many
	// go into one child of a larger one, which compares nothing.
	maxOps   = 128
	childOps = 100
)

// write does what a transaction of the federation did, below the bare root.
func (o *observer) write(ctx context.Context, events []seen, absent bool) (int64, error) {
	var compares []clientv3.Cmp
	var ops []clientv3.Op
	for _, e := range events {
		key := bareRoot + strings.TrimPrefix(e.key, record.Root)
		if absent {
			compares = append(compares, clientv3.Compare(clientv3.ModRevision(key), "=", 0))
		}
		if e.deleted {
			ops = append(ops, clientv3.OpDelete(key))
			continue
		}
		ops = append(ops, clientv3.OpPut(key, string(e.value)))
	}
	if len(ops) > maxOps {
		// As the federation's store does it.
		var children []clientv3.Op
		for chunk := range slices.Chunk(ops, childOps) {
			children = append(children, clientv3.OpTxn(nil, chunk, nil))
		}
		ops = children
	}
	resp, err := o.client.Txn(ctx).If(compares...).Then(ops...).Commit()
	if err != nil {
		return 0, err
	}
	if !resp.Succeeded {
		return 0, errors.New("a transaction of the relay found keys of an earlier one")
	}
	return resp.Header.Revision, nil
}
