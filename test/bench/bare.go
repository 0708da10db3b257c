package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc"

	"github.com/oscarfed/oscarfed/test/await"
	"github.com/oscarfed/oscarfed/test/world"
)

// bareRoot is where bare clients do what the federation does below its own root.
const bareRoot = "/bench/v1/"

// bareClients stand for syncers that do nothing: one etcd client each, with a
// connection of its own.
type bareClients struct {
	stop func()
}

// BareStart says which clusters' keys to answer, and with how many bytes: the
// first write of a desired record as long as a vote, the next as a report.
type BareStart struct {
	Etcd         string
	From, To     int
	Vote, Report int
}

// startBare starts clients that watch one desired record each and answer every
// put of it by a transaction that compares it: what a syncer does, without the
// OSCAR, the definition and the decision. It returns when all watch.
func (f *fleet) startBare(in BareStart) error {
	ctx, cancel := context.WithCancel(f.ctx)
	var running sync.WaitGroup
	b := &bareClients{stop: func() { cancel(); running.Wait() }}
	watching := make(chan error, in.To-in.From)
	for i := in.From; i < in.To; i++ {
		running.Go(func() { bareSyncer(ctx, f.link, i, in, watching) })
	}
	for range in.To - in.From {
		if err := <-watching; err != nil {
			b.stop()
			return err
		}
	}
	f.bare = b
	return nil
}

func (f *fleet) stopBare() {
	if f.bare != nil {
		f.bare.stop()
		f.bare = nil
	}
}

func dialBare(link *world.Link, endpoint string) (*clientv3.Client, error) {
	return clientv3.New(clientv3.Config{
		Endpoints: []string{endpoint}, DialTimeout: 10 * time.Second,
		DialOptions: []grpc.DialOption{link.DialOption()},
	})
}

func bareSyncer(ctx context.Context, link *world.Link, i int, in BareStart, watching chan<- error) {
	client, err := dialBare(link, in.Etcd)
	if err != nil {
		watching <- err
		return
	}
	defer func() { _ = client.Close() }()
	desired, observed := bareRoot+"c/"+clusterID(i)+"/desired/services/", bareRoot+"c/"+clusterID(i)+"/observed/services/"
	vote, report := strings.Repeat("v", in.Vote), strings.Repeat("r", in.Report)
	for resp := range client.Watch(ctx, desired, clientv3.WithPrefix(), clientv3.WithCreatedNotify()) {
		if resp.Created {
			watching <- nil
		}
		for _, ev := range resp.Events {
			if ev.Type != clientv3.EventTypePut {
				continue
			}
			key, value := string(ev.Kv.Key), report
			if ev.IsCreate() {
				value = vote
			}
			// A failed one shows by the relay that never ends.
			_, _ = client.Txn(ctx).If(clientv3.Compare(clientv3.ModRevision(key), "=", ev.Kv.ModRevision)).
				Then(clientv3.OpPut(observed+strings.TrimPrefix(key, desired), value)).Commit()
		}
	}
}

// bareReconnect is the floor of a reconnection: that many bare clients dial at
// once, each takes a lease, puts a key with it, lists what a syncer lists, and opens a
// watch. It returns how long that took for all of them.
func (f *fleet) bareReconnect(endpoint string, n int) (time.Duration, error) {
	began := time.Now()
	errs := make([]error, n)
	var wg sync.WaitGroup
	ctx, cancel := context.WithTimeout(f.ctx, await.Limit)
	defer cancel()
	clients := make([]*clientv3.Client, n)
	for i := range n {
		wg.Go(func() { clients[i], errs[i] = bareConnect(ctx, f.link, endpoint, i) })
	}
	wg.Wait()
	took := time.Since(began)
	for _, c := range clients {
		if c != nil {
			_ = c.Close()
		}
	}
	return took, errors.Join(errs...)
}

func bareConnect(ctx context.Context, link *world.Link, endpoint string, i int) (*clientv3.Client, error) {
	client, err := dialBare(link, endpoint)
	if err != nil {
		return nil, err
	}
	lease, err := client.Grant(ctx, 30)
	if err != nil {
		return client, err
	}
	if _, err := client.Put(ctx, fmt.Sprintf("%ssessions/%04d", bareRoot, i), "session", clientv3.WithLease(lease.ID)); err != nil {
		return client, err
	}
	for _, part := range []string{"desired/services/", "observed/"} {
		if _, err := client.Get(ctx, "/oscarfed/v1/c/"+clusterID(i)+"/"+part, clientv3.WithPrefix()); err != nil {
			return client, err
		}
	}
	watch := client.Watch(ctx, "/oscarfed/v1/c/"+clusterID(i)+"/", clientv3.WithPrefix(), clientv3.WithCreatedNotify())
	if resp := <-watch; resp.Err() != nil {
		return client, resp.Err()
	}
	return client, nil
}
