package gateway

import (
	"context"
	"errors"
	"io"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/oscarfed/oscarfed/store/guard"
)

// etcdAs is etcd as the user of a request, and the context to ask it with: with the
// deadline and the end of the request, and its wish for a member that has a leader.
func (g *Gateway) etcdAs(ctx context.Context) (*grpc.ClientConn, context.Context, error) {
	client, err := g.pool.as(guard.UserOf(ctx))
	if err != nil {
		return nil, nil, unavailable()
	}
	if leader := metadata.ValueFromIncomingContext(ctx, rpctypes.MetadataRequireLeaderKey); len(leader) > 0 {
		ctx = metadata.AppendToOutgoingContext(ctx, rpctypes.MetadataRequireLeaderKey, leader[0])
	}
	return client.ActiveConnection(), ctx, nil
}

// unavailable is what clusters are told of an etcd that cannot be reached, and not where
// it is.
func unavailable() error {
	return status.Error(codes.Unavailable, "etcd cannot be reached from the gateway")
}

// told is an error as clusters may see it: one of etcd itself as it is.
func told(err error) error {
	if err == nil || errors.Is(err, io.EOF) {
		return nil
	}
	if _, ok := errors.AsType[rpctypes.EtcdError](rpctypes.Error(err)); ok {
		return err
	}
	if s, ok := status.FromError(err); ok && s.Code() != codes.Unavailable {
		return err
	}
	return unavailable()
}

// forward asks etcd as the user of a request.
func forward[Req, Resp any](ctx context.Context, g *Gateway, req Req, call func(*grpc.ClientConn) func(context.Context, Req, ...grpc.CallOption) (Resp, error)) (Resp, error) {
	conn, ctx, err := g.etcdAs(ctx)
	if err != nil {
		var none Resp
		return none, err
	}
	resp, err := call(conn)(ctx, req)
	return resp, told(err)
}

// pipe passes messages on in both directions until one of them ends.
func pipe[Req, Resp any](g *Gateway, in grpc.BidiStreamingServer[Req, Resp], open func(context.Context, *grpc.ClientConn) (grpc.BidiStreamingClient[Req, Resp], error)) error {
	conn, ctx, err := g.etcdAs(in.Context())
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	out, err := open(ctx, conn)
	if err != nil {
		return told(err)
	}
	g.work.Go(func() {
		for {
			req, err := in.Recv()
			if errors.Is(err, io.EOF) {
				_ = out.CloseSend() // what is open is told to the end
				return
			}
			if err == nil {
				err = out.Send(req)
			}
			if err != nil {
				cancel()
				return
			}
		}
	})
	return receive(in, out)
}

// receive passes messages of etcd on.
func receive[Resp any](in interface{ Send(*Resp) error }, out interface{ Recv() (*Resp, error) }) error {
	for {
		resp, err := out.Recv()
		if err != nil {
			return told(err)
		}
		if err := in.Send(resp); err != nil {
			return err
		}
	}
}

type kvServer struct {
	pb.UnimplementedKVServer
	gateway *Gateway
}

// Range implements pb.KVServer.
func (s kvServer) Range(ctx context.Context, r *pb.RangeRequest) (*pb.RangeResponse, error) {
	return forward(ctx, s.gateway, r, func(c *grpc.ClientConn) func(context.Context, *pb.RangeRequest, ...grpc.CallOption) (*pb.RangeResponse, error) {
		return pb.NewKVClient(c).Range
	})
}

// Put implements pb.KVServer.
func (s kvServer) Put(ctx context.Context, r *pb.PutRequest) (*pb.PutResponse, error) {
	return forward(ctx, s.gateway, r, func(c *grpc.ClientConn) func(context.Context, *pb.PutRequest, ...grpc.CallOption) (*pb.PutResponse, error) {
		return pb.NewKVClient(c).Put
	})
}

// DeleteRange implements pb.KVServer.
func (s kvServer) DeleteRange(ctx context.Context, r *pb.DeleteRangeRequest) (*pb.DeleteRangeResponse, error) {
	return forward(ctx, s.gateway, r, func(c *grpc.ClientConn) func(context.Context, *pb.DeleteRangeRequest, ...grpc.CallOption) (*pb.DeleteRangeResponse, error) {
		return pb.NewKVClient(c).DeleteRange
	})
}

// Txn implements pb.KVServer.
func (s kvServer) Txn(ctx context.Context, r *pb.TxnRequest) (*pb.TxnResponse, error) {
	return forward(ctx, s.gateway, r, func(c *grpc.ClientConn) func(context.Context, *pb.TxnRequest, ...grpc.CallOption) (*pb.TxnResponse, error) {
		return pb.NewKVClient(c).Txn
	})
}

// RangeStream implements pb.KVServer.
func (s kvServer) RangeStream(r *pb.RangeRequest, in grpc.ServerStreamingServer[pb.RangeStreamResponse]) error {
	conn, ctx, err := s.gateway.etcdAs(in.Context())
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	out, err := pb.NewKVClient(conn).RangeStream(ctx, r)
	if err != nil {
		return told(err)
	}
	return receive[pb.RangeStreamResponse](in, out)
}

type watchServer struct {
	pb.UnimplementedWatchServer
	gateway *Gateway
}

// Watch implements pb.WatchServer.
func (s watchServer) Watch(in grpc.BidiStreamingServer[pb.WatchRequest, pb.WatchResponse]) error {
	return pipe(s.gateway, in, func(ctx context.Context, c *grpc.ClientConn) (grpc.BidiStreamingClient[pb.WatchRequest, pb.WatchResponse], error) {
		return pb.NewWatchClient(c).Watch(ctx)
	})
}

type leaseServer struct {
	pb.UnimplementedLeaseServer
	gateway *Gateway
}

// LeaseGrant implements pb.LeaseServer.
func (s leaseServer) LeaseGrant(ctx context.Context, r *pb.LeaseGrantRequest) (*pb.LeaseGrantResponse, error) {
	return forward(ctx, s.gateway, r, func(c *grpc.ClientConn) func(context.Context, *pb.LeaseGrantRequest, ...grpc.CallOption) (*pb.LeaseGrantResponse, error) {
		return pb.NewLeaseClient(c).LeaseGrant
	})
}

// LeaseRevoke implements pb.LeaseServer.
func (s leaseServer) LeaseRevoke(ctx context.Context, r *pb.LeaseRevokeRequest) (*pb.LeaseRevokeResponse, error) {
	return forward(ctx, s.gateway, r, func(c *grpc.ClientConn) func(context.Context, *pb.LeaseRevokeRequest, ...grpc.CallOption) (*pb.LeaseRevokeResponse, error) {
		return pb.NewLeaseClient(c).LeaseRevoke
	})
}

// LeaseTimeToLive implements pb.LeaseServer.
func (s leaseServer) LeaseTimeToLive(ctx context.Context, r *pb.LeaseTimeToLiveRequest) (*pb.LeaseTimeToLiveResponse, error) {
	return forward(ctx, s.gateway, r, func(c *grpc.ClientConn) func(context.Context, *pb.LeaseTimeToLiveRequest, ...grpc.CallOption) (*pb.LeaseTimeToLiveResponse, error) {
		return pb.NewLeaseClient(c).LeaseTimeToLive
	})
}

// LeaseKeepAlive implements pb.LeaseServer.
func (s leaseServer) LeaseKeepAlive(in grpc.BidiStreamingServer[pb.LeaseKeepAliveRequest, pb.LeaseKeepAliveResponse]) error {
	return pipe(s.gateway, in, func(ctx context.Context, c *grpc.ClientConn) (grpc.BidiStreamingClient[pb.LeaseKeepAliveRequest, pb.LeaseKeepAliveResponse], error) {
		return pb.NewLeaseClient(c).LeaseKeepAlive(ctx)
	})
}

// maintenanceServer tells the release of a member and how it is, and nothing else.
type maintenanceServer struct {
	pb.UnimplementedMaintenanceServer
	gateway *Gateway
}

// Status implements pb.MaintenanceServer.
func (s maintenanceServer) Status(ctx context.Context, r *pb.StatusRequest) (*pb.StatusResponse, error) {
	return forward(ctx, s.gateway, r, func(c *grpc.ClientConn) func(context.Context, *pb.StatusRequest, ...grpc.CallOption) (*pb.StatusResponse, error) {
		return pb.NewMaintenanceClient(c).Status
	})
}
