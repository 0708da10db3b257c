package store

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc/codes"
)

// pageSize is the most keys of one page, where the server does not stream.
// Smaller pages cost more than they save: the server counts the rest of the
// range for each of them.
const pageSize = 1000

// List reads all keys with a prefix that ends in a slash, in key order and at one
// revision, which it returns. When the revision is compacted meanwhile the error is ErrCompacted:
// list again.
func (s *Store) List(ctx context.Context, prefix string) ([]KV, int64, error) {
	out, err := again(ctx, s, func(ctx context.Context) (listing, error) {
		kvs, revision, err := s.list(ctx, s.client, prefix, 0)
		return listing{kvs, revision}, err
	})
	if err != nil {
		return nil, 0, fmt.Errorf("list %s: %w", prefix, err)
	}
	return out.kvs, out.revision, nil
}

// listing is what a prefix held at a revision.
type listing struct {
	kvs      []KV
	revision int64
}

// ListKeys is List without the values, which etcd answers from its index alone.
func (s *Store) ListKeys(ctx context.Context, prefix string) ([]KV, error) {
	keys, _, err := s.keysAt(ctx, prefix, 0)
	return keys, err
}

// keysAt lists keys at a revision, which it returns; 0 is the newest.
func (s *Store) keysAt(ctx context.Context, prefix string, revision int64) ([]KV, int64, error) {
	resp, err := Repeat(ctx, s, func(ctx context.Context) (*clientv3.GetResponse, error) {
		return s.client.Get(ctx, prefix, clientv3.WithPrefix(), clientv3.WithKeysOnly(), clientv3.WithRev(revision))
	})
	if err != nil {
		return nil, 0, fmt.Errorf("list keys of %s: %w", prefix, err)
	}
	kvs := make([]KV, len(resp.Kvs))
	for i, kv := range resp.Kvs {
		kvs[i] = kvOf(kv)
	}
	if revision == 0 {
		revision = resp.Header.Revision
	}
	return kvs, revision, nil
}

// backwardsPage is how many values Backwards reads at once.
const backwardsPage = 500

// Backwards is BackwardsAt with the newest records of each read: what is deleted meanwhile may be
// missing.
func (s *Store) Backwards(ctx context.Context, prefix, before string, fn func(KV) bool) error {
	_, err := s.backwards(ctx, 0, 0, prefix, before, fn)
	return err
}

// BackwardsAt calls fn with the records of a prefix that ends in a slash, from the
// greatest key below before (empty: the greatest of all) to the smallest, until fn
// returns false. etcd itself would read the whole prefix to sort a part of it
// backwards. All records are of one revision, which is returned; 0 asks for the
// newest one. The error is ErrCompacted when etcd does not have it any more.
func (s *Store) BackwardsAt(ctx context.Context, revision int64, prefix, before string, fn func(KV) bool) (int64, error) {
	return s.backwards(ctx, revision, -1, prefix, before, fn)
}

// backwards lists the keys at a revision, and reads the values at another one; -1 is that of the
// keys.
func (s *Store) backwards(ctx context.Context, revision, values int64, prefix, before string, fn func(KV) bool) (int64, error) {
	keys, listed, err := s.keysAt(ctx, prefix, revision)
	if err != nil {
		return 0, err
	}
	if values < 0 {
		values = listed
	}
	if before != "" {
		n, _ := slices.BinarySearchFunc(keys, before, func(kv KV, key string) int { return strings.Compare(kv.Key, key) })
		keys = keys[:n]
	}
	for len(keys) > 0 {
		first := max(0, len(keys)-backwardsPage)
		from, to := keys[first].Key, keys[len(keys)-1].Key+"\x00"
		keys = keys[:first]
		resp, err := Repeat(ctx, s, func(ctx context.Context) (*clientv3.GetResponse, error) {
			return s.client.Get(ctx, from, clientv3.WithRange(to), clientv3.WithLimit(2*backwardsPage), clientv3.WithRev(values))
		})
		if err != nil {
			return 0, fmt.Errorf("read %s backwards: %w", prefix, err)
		}
		for _, kv := range slices.Backward(resp.Kvs) {
			if !fn(kvOf(kv)) {
				return listed, nil
			}
		}
	}
	return listed, nil
}

// list reads a prefix at the given revision; 0 stands for the newest one. What
// does not end in a slash is a single key.
func (s *Store) list(ctx context.Context, client *clientv3.Client, prefix string, revision int64) ([]KV, int64, error) {
	if !strings.HasSuffix(prefix, "/") {
		return s.single(ctx, client, prefix, revision)
	}
	if !s.pages.Load() {
		kvs, at, err := s.stream(ctx, client, prefix, revision)
		if codeOf(err) != codes.Unimplemented {
			return kvs, at, translate(err)
		}
		s.pages.Store(true) // a server of the 3.6 line
	}
	kvs, at, err := s.page(ctx, client, prefix, revision)
	return kvs, at, translate(err)
}

// single reads one key as a list of one or none.
func (s *Store) single(ctx context.Context, client *clientv3.Client, key string, revision int64) ([]KV, int64, error) {
	resp, err := try(ctx, s, func(ctx context.Context) (*clientv3.GetResponse, error) {
		return client.Get(ctx, key, clientv3.WithRev(revision))
	})
	if err != nil {
		return nil, 0, translate(err)
	}
	if revision == 0 {
		revision = resp.Header.Revision
	}
	var kvs []KV
	for _, kv := range resp.Kvs {
		kvs = append(kvs, kvOf(kv))
	}
	return kvs, revision, nil
}

// stream reads a prefix as one stream of chunks, so that neither side holds the
// whole answer as one message. A stream that stands still for Config.Deadline is
// given up.
func (s *Store) stream(ctx context.Context, client *clientv3.Client, prefix string, revision int64) ([]KV, int64, error) {
	ctx, cancel := context.WithCancel(clientv3.WithRequireLeader(ctx))
	defer cancel()
	idle := time.AfterFunc(s.cfg.Deadline, cancel)
	defer idle.Stop()

	chunks, err := client.GetStream(ctx, prefix, clientv3.WithPrefix(), clientv3.WithRev(revision))
	if err != nil {
		return nil, 0, err
	}
	defer func() {
		cancel()
		for range chunks { // the sender ends only when its channel is read
		}
	}()
	var kvs []KV
	for chunk := range chunks {
		if err := chunk.Err(); err != nil {
			return nil, 0, err
		}
		idle.Reset(s.cfg.Deadline)
		for _, kv := range chunk.Kvs {
			kvs = append(kvs, kvOf(kv))
		}
		// Only the last chunk has a header. It tells the newest revision of the
		// store, not the one that was asked for.
		if revision == 0 && chunk.Header != nil {
			revision = chunk.Header.Revision
		}
	}
	if revision == 0 {
		return nil, 0, fmt.Errorf("%w: the range stream ended without a header", ErrUnavailable)
	}
	return kvs, revision, nil
}

// page reads a prefix page by page; the first page fixes the revision of the others. Nobody sees how
// much of a page is on its way, so one that Config.RequestTimeout cuts off is asked for with fewer
// keys. A list of which no page comes for Config.Deadline is given up.
func (s *Store) page(ctx context.Context, client *clientv3.Client, prefix string, revision int64) ([]KV, int64, error) {
	from, end := prefix, clientv3.GetPrefixRangeEnd(prefix)
	var kvs []KV
	most, came := pageSize, time.Now()
	for {
		asked := time.Now()
		resp, err := try(ctx, s, func(ctx context.Context) (*clientv3.GetResponse, error) {
			return client.Get(ctx, from, clientv3.WithRange(end), clientv3.WithLimit(int64(most)), clientv3.WithRev(revision))
		})
		switch {
		case isTimeout(err) && ctx.Err() == nil && most > 1 && time.Since(came) < s.cfg.Deadline:
			most = max(1, most/4)
			continue
		case err != nil:
			return nil, 0, err
		}
		if revision == 0 {
			revision = resp.Header.Revision
		}
		for _, kv := range resp.Kvs {
			kvs = append(kvs, kvOf(kv))
		}
		if !resp.More || len(resp.Kvs) == 0 {
			return kvs, revision, nil
		}
		from, came = kvs[len(kvs)-1].Key+"\x00", time.Now()
		// The next keys are taken to be as slow as these: they then take half of the time.
		most = int(max(1, min(pageSize, time.Duration(len(resp.Kvs))*s.cfg.RequestTimeout/2/max(1, came.Sub(asked)))))
	}
}
