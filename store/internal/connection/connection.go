// Package connection sets what gRPC keeps for each connection. Among thousands of quiet clients its
// defaults are most of what they cost: it measures what a connection carries, with a ping for nearly
// every message, and holds a buffer of 32 KiB for what comes next.
package connection

import "google.golang.org/grpc"

// Bytes that may be under way on one stream, and on one connection. A link of 100 ms carries 10 MiB a
// second on a stream.
const (
	streamWindow     = 1 << 20
	connectionWindow = 2 << 20
)

// readBuffer is how many bytes are read at a time. More is read past the buffer.
const readBuffer = 4 << 10

// Client sets it for the connections of a client.
func Client() []grpc.DialOption {
	return []grpc.DialOption{
		grpc.WithStaticStreamWindowSize(streamWindow), grpc.WithStaticConnWindowSize(connectionWindow), grpc.WithReadBufferSize(readBuffer),
		grpc.WithContextDialer(dial),
	}
}

// Server sets it for the connections of a server.
func Server() []grpc.ServerOption {
	return []grpc.ServerOption{
		grpc.StaticStreamWindowSize(streamWindow), grpc.StaticConnWindowSize(connectionWindow), grpc.ReadBufferSize(readBuffer),
	}
}
