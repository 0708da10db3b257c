package store

import (
	"context"
	"crypto/rand"
	"errors"
	"sync/atomic"

	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
)

// watchFrom starts a watch at the last revision that was seen, which is told again.
// It must not start after it: etcd answers no request for progress on a watch that
// starts at a revision to come, so that on a store where nothing is written it looks
// exactly like a broken one.
func watchFrom(seen int64) clientv3.OpOption { return clientv3.WithRev(seen) }

// openedKey marks the context of a watch with whether its stream was opened.
type openedKey struct{}

// ownStream gives a watch a gRPC stream of its own. Others on the same stream
// would delay its progress until all of them have caught up; etcd's client puts
// watches with the same outgoing metadata together.
func ownStream(ctx context.Context) context.Context {
	ctx = context.WithValue(ctx, openedKey{}, new(atomic.Bool))
	return metadata.AppendToOutgoingContext(ctx, "oscarfed-watch", rand.Text())
}

// oneStream keeps etcd's client from resuming a watch on a second stream behind
// our back: the server there may have another history.
func oneStream(ctx context.Context, desc *grpc.StreamDesc, cc *grpc.ClientConn, method string, open grpc.Streamer, opts ...grpc.CallOption) (grpc.ClientStream, error) {
	if opened, ok := ctx.Value(openedKey{}).(*atomic.Bool); ok && opened.Swap(true) {
		return nil, status.Error(codes.FailedPrecondition, "the stream of the watch is broken")
	}
	return open(ctx, desc, cc, method, opts...)
}

// brokenStream says whether a watch that ended with err can be opened anew.
func brokenStream(err error) bool {
	return codeOf(err) == codes.FailedPrecondition || errors.Is(translate(err), ErrUnavailable)
}
