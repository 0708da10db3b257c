package boot

import (
	"context"
	"net"
	"strings"
	"sync"
	"time"
)

// unreachedTry bounds a connection that is only made to see whether it can be.
const unreachedTry = 2 * time.Second

// unreached says of each endpoint of an etcd that does not answer what a connection meets there. Its
// client tries again for ever, and tells of nothing but a deadline.
func unreached(ctx context.Context, endpoints []string) string {
	ctx, cancel := context.WithTimeout(ctx, unreachedTry)
	defer cancel()
	found := make([]string, len(endpoints))
	var all sync.WaitGroup
	for i, endpoint := range endpoints {
		all.Go(func() { found[i] = endpoint + ": " + met(ctx, endpoint) })
	}
	all.Wait()
	return strings.Join(found, "; ")
}

// met is what a connection to an endpoint meets.
func met(ctx context.Context, endpoint string) string {
	scheme, address, ok := strings.Cut(endpoint, "://")
	if !ok {
		scheme, address = "http", endpoint
	}
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", address)
	if err != nil {
		return err.Error()
	}
	_ = conn.Close() // nothing was sent
	return "it takes connections, and does not answer: is it an etcd that has a quorum, and is " + scheme + ":// right?"
}
