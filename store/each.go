package store

import (
	"context"
	"errors"
	"slices"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc"
)

// eachBytes is the most bytes of one answer to Each. The largest record fits in
// several times.
const eachBytes = 4 << 20

// Each calls fn with those of the keys that exist, in their order. A value is not older than the
// call; they are not all of one revision, as those of Read are. Many are read at once, as far as
// they fit into a few MiB: a caller that keeps no value may go through any number of keys. It ends
// with fn's error.
func (s *Store) Each(ctx context.Context, keys []string, fn func(KV) error) error {
	return s.EachAt(ctx, 0, keys, fn)
}

// EachAt is Each with what the keys held at a revision; 0 is the newest of each read. The error is
// ErrCompacted when etcd does not have the revision any more.
func (s *Store) EachAt(ctx context.Context, revision int64, keys []string, fn func(KV) error) error {
	kv := clientv3.NewKVFromKVClient(boundedKV{clientv3.RetryKVClient(s.client)}, s.client)
	most := maxOps
	for len(keys) > 0 {
		part := keys[:min(most, len(keys))]
		view, err := s.readWith(ctx, kv, part, revision)
		switch {
		case errors.Is(err, ErrTooLarge) && len(part) > 1:
			most = len(part) / 2
			continue
		case err != nil:
			return err
		}
		keys = keys[len(part):]
		size := 1
		for _, key := range part {
			if kv, ok := view.KV(key); ok {
				size += len(kv.Value)
				if err := fn(kv); err != nil {
					return err
				}
			}
		}
		// The next are taken to be as large as these: they then fill half of an answer.
		most = max(1, min(maxOps, len(part)*eachBytes/2/size))
	}
	return nil
}

// boundedKV refuses to receive a larger answer before it is in memory.
type boundedKV struct{ pb.KVClient }

// Txn implements etcdserverpb.KVClient.
func (b boundedKV) Txn(ctx context.Context, in *pb.TxnRequest, opts ...grpc.CallOption) (*pb.TxnResponse, error) {
	return b.KVClient.Txn(ctx, in, slices.Concat(opts, []grpc.CallOption{grpc.MaxCallRecvMsgSize(eachBytes)})...)
}
