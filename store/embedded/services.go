package embedded

import (
	"context"
	"strings"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// etcd serves locks and elections beside its own interface. They work on keys through
// a client inside the server, nobody here uses them, and what is not there needs no
// thought about whose rights it has.
const (
	lockService     = "/v3lockpb."
	electionService = "/v3electionpb."
)

func withheld(method string) error {
	if strings.HasPrefix(method, lockService) || strings.HasPrefix(method, electionService) {
		return status.Error(codes.PermissionDenied, "locks and elections are not served here")
	}
	return nil
}

func withholdUnary(ctx context.Context, req any, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
	if err := withheld(info.FullMethod); err != nil {
		return nil, err
	}
	return handler(ctx, req)
}

func withholdStream(srv any, stream grpc.ServerStream, info *grpc.StreamServerInfo, handler grpc.StreamHandler) error {
	if err := withheld(info.FullMethod); err != nil {
		return err
	}
	return handler(srv, stream)
}
