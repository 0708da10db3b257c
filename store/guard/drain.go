package guard

import (
	"context"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc"
)

// Drain ends streams when a server closes. gRPC and etcd wait for watches and keepalives
// to go away, which they never do by themselves.
func Drain(closing <-chan struct{}) grpc.ServerOption {
	return grpc.ChainStreamInterceptor(drain{closing}.intercept)
}

type drain struct{ closing <-chan struct{} }

func (d drain) intercept(srv any, stream grpc.ServerStream, _ *grpc.StreamServerInfo, handler grpc.StreamHandler) error {
	child, cancel := context.WithCancel(stream.Context())
	defer cancel()
	ctx := drainedContext{child, stream.Context()}
	go func() {
		select {
		case <-d.closing:
			cancel()
		case <-ctx.Done():
		}
	}()
	err := handler(srv, drained{stream, ctx})
	select {
	case <-d.closing:
		return rpctypes.ErrGRPCStopped // clients then try again elsewhere, or later
	default:
		return err
	}
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
