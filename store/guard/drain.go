package guard

import (
	"context"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc"
)

// Drain ends streams when open ends, which is when a server closes. gRPC and etcd wait for
// watches and keepalives to go away, which they never do by themselves.
func Drain(open context.Context) grpc.ServerOption {
	return grpc.ChainStreamInterceptor(drain{open}.intercept)
}

type drain struct{ open context.Context }

func (d drain) intercept(srv any, stream grpc.ServerStream, _ *grpc.StreamServerInfo, handler grpc.StreamHandler) error {
	child, cancel := context.WithCancel(stream.Context())
	defer cancel()
	// Not a goroutine: there are as many streams as connected clusters, and each renews its lease by one.
	defer context.AfterFunc(d.open, cancel)()
	err := handler(srv, drained{stream, drainedContext{child, stream.Context()}})
	if d.open.Err() != nil {
		return rpctypes.ErrGRPCStopped // clients then try again elsewhere, or later
	}
	return err
}

// drained is a stream with another context.
type drained struct {
	grpc.ServerStream
	ctx context.Context
}

func (s drained) Context() context.Context { return s.ctx }

// drainedContext is one that Drain can end. etcd ends streams, too, and answers with the Err of
// its context: that there is no leader.
type drainedContext struct {
	context.Context
	stream context.Context
}

// Err implements context.Context.
func (c drainedContext) Err() error {
	if err := c.stream.Err(); err != nil {
		return err
	}
	return c.Context.Err()
}
