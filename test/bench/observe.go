package main

import (
	"context"
	"slices"
	"sync"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/oscarfed/oscarfed/store/record"
	"github.com/oscarfed/oscarfed/test/await"
	"github.com/oscarfed/oscarfed/test/world"
)

// seen is one key of one revision, and when the observer was told of it.
type seen struct {
	key     string
	value   []byte
	rev     int64
	deleted bool
	at      time.Time
}

// observer watches the whole store as a bare client does: the federation and its
// floor are timed by the same eyes.
type observer struct {
	client *clientv3.Client
	cancel context.CancelFunc
	done   chan struct{}

	mu     sync.Mutex
	events []seen
	more   chan struct{} // closed and replaced when there is more
	keep   bool
	rev    int64
	last   time.Time
	err    error
}

func newObserver(ctx context.Context, endpoint string) (*observer, error) {
	client, err := dialBare(world.NewLink(world.Loopback{}), endpoint)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	o := &observer{client: client, cancel: cancel, done: make(chan struct{}), more: make(chan struct{}), keep: true}
	watch := client.Watch(ctx, "/", clientv3.WithPrefix(), clientv3.WithCreatedNotify())
	created := <-watch
	o.rev = created.Header.Revision
	go o.run(watch)
	return o, created.Err()
}

func (o *observer) close() {
	o.cancel()
	<-o.done
	_ = o.client.Close()
}

func (o *observer) run(watch clientv3.WatchChan) {
	defer close(o.done)
	for resp := range watch {
		now := time.Now()
		o.mu.Lock()
		o.err = resp.Err()
		for _, ev := range resp.Events {
			o.rev, o.last = ev.Kv.ModRevision, now
			if o.keep {
				o.events = append(o.events, seen{
					key: string(ev.Kv.Key), value: ev.Kv.Value, rev: ev.Kv.ModRevision, deleted: ev.Type == clientv3.EventTypeDelete, at: now,
				})
			}
		}
		close(o.more)
		o.more = make(chan struct{})
		o.mu.Unlock()
	}
}

// forget drops what was seen, and says whether to keep what comes.
func (o *observer) forget(keep bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.events, o.keep = nil, keep
}

// newest is the newest revision that was seen, and when.
func (o *observer) newest() (int64, time.Time) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.rev, o.last
}

// follow gives fn each event since forget, in order, until it says that it has
// seen enough.
func (o *observer) follow(ctx context.Context, fn func(seen) bool) error {
	ctx, cancel := context.WithTimeout(ctx, await.Limit)
	defer cancel()
	for i := 0; ; {
		o.mu.Lock()
		events, more, err := o.events, o.more, o.err
		o.mu.Unlock()
		for ; i < len(events); i++ {
			if fn(events[i]) {
				return nil
			}
		}
		if err != nil {
			return err
		}
		select {
		case <-more:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// sessionsEnded returns when no cluster has a session. The control plane keeps a lease of
// its own, so that leases are not counted.
func (o *observer) sessionsEnded(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, await.Limit)
	defer cancel()
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	for {
		keys, err := o.client.Get(ctx, record.ClusterTreePrefix, clientv3.WithPrefix(), clientv3.WithKeysOnly())
		if err != nil || !slices.ContainsFunc(keys.Kvs, func(kv *mvccpb.KeyValue) bool {
			return record.ParseKey(string(kv.Key)).Kind == record.KindSession
		}) {
			return err
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// settled returns when nothing was written for a while, and when the last write was.
func (o *observer) settled(ctx context.Context, quiet time.Duration) (time.Time, error) {
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		_, last := o.newest()
		if time.Since(last) >= quiet {
			return last, nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return last, context.Cause(ctx)
		}
	}
}
