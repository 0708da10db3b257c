package store

import (
	"context"
	"crypto/tls"
	"errors"
	"net"

	"google.golang.org/grpc/credentials"
)

// watchedTLS tells of handshakes in which one side does not trust the other's certificate.
// etcd's client tries again for ever, and says nothing of why.
type watchedTLS struct {
	credentials.TransportCredentials
	tell func(error)
}

// ClientHandshake implements credentials.TransportCredentials.
func (w watchedTLS) ClientHandshake(ctx context.Context, authority string, raw net.Conn) (net.Conn, credentials.AuthInfo, error) {
	conn, info, err := w.TransportCredentials.ClientHandshake(ctx, authority, raw)
	if err != nil {
		if _, ok := errors.AsType[*tls.CertificateVerificationError](err); ok || refused(err) {
			w.tell(err)
		}
		return conn, info, err
	}
	return &watchedConn{Conn: conn, tell: w.tell}, info, nil
}

// Clone implements credentials.TransportCredentials.
func (w watchedTLS) Clone() credentials.TransportCredentials {
	return watchedTLS{w.TransportCredentials.Clone(), w.tell}
}

// watchedConn is one connection. In TLS 1.3 a server refuses a certificate when the client has
// completed its handshake already.
type watchedConn struct {
	net.Conn
	tell func(error)
}

// Read implements net.Conn.
func (c *watchedConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if err != nil && refused(err) {
		c.tell(err)
	}
	return n, err
}

// refused says whether the other side ended a connection with an alert of TLS.
func refused(err error) bool {
	op, ok := errors.AsType[*net.OpError](err)
	return ok && op.Op == "remote error"
}
