package main

import (
	"context"
	"errors"
	"os"
	"strconv"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/oscarfed/oscarfed/test/process"
	"github.com/oscarfed/oscarfed/test/world"
)

// bareEtcd runs etcd alone over a data directory that no other process uses, while fn uses it.
func (w *bench) bareEtcd(ctx context.Context, data string, fn func(client *clientv3.Client, inside string) error) (err error) {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	address, err := freeAddress()
	if err != nil {
		return err
	}
	child, err := process.Run(process.Command{Path: self, Args: []string{
		insideCommand, address, "etcd", data, strconv.FormatInt(w.quota, 10),
	}})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, stopChild(child)) }()
	endpoint, err := child.Ready(ctx)
	if err != nil {
		return err
	}
	client, err := dialBare(world.NewLink(world.Loopback{}), endpoint)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, client.Close()) }()
	return fn(client, address)
}

// bareStart is the floor of a cold start: etcd alone over the same data, and one list of everything.
type bareStart struct {
	took time.Duration
	// bytes were listed, and live is the heap of etcd then.
	bytes, live int64
}

// bareStart measures one.
func (w *bench) bareStart(ctx context.Context, data string) (out bareStart, err error) {
	began := time.Now()
	err = w.bareEtcd(ctx, data, func(client *clientv3.Client, inside string) (err error) {
		if out.bytes, err = listAll(ctx, client); err != nil {
			return err
		}
		out.took = time.Since(began)
		out.live, err = liveIn(ctx, inside)
		return err
	})
	return out, err
}

// listAll lists everything, and returns how many bytes that were.
func listAll(ctx context.Context, client *clientv3.Client) (bytes int64, err error) {
	chunks, err := client.GetStream(ctx, "/", clientv3.WithPrefix())
	if err != nil {
		return 0, err
	}
	for chunk := range chunks {
		if err := chunk.Err(); err != nil {
			return bytes, err
		}
		for _, kv := range chunk.Kvs {
			bytes += int64(len(kv.Key) + len(kv.Value))
		}
	}
	return bytes, nil
}
