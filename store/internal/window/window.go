// Package window fixes how much of gRPC's messages may be under way. By default gRPC measures what a
// connection carries, with a ping for nearly every message: among thousands of quiet clients that is
// most of what they cost.
package window

import "google.golang.org/grpc"

// Bytes that may be under way on one stream, and on one connection. A link of 100 ms carries 10 MiB a
// second on a stream.
const (
	stream     = 1 << 20
	connection = 2 << 20
)

// Client fixes what a client receives.
func Client() []grpc.DialOption {
	return []grpc.DialOption{grpc.WithStaticStreamWindowSize(stream), grpc.WithStaticConnWindowSize(connection)}
}

// Server fixes what a server receives.
func Server() []grpc.ServerOption {
	return []grpc.ServerOption{grpc.StaticStreamWindowSize(stream), grpc.StaticConnWindowSize(connection)}
}
