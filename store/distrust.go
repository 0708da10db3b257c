package store

import (
	"context"
	"crypto/tls"
	"errors"
	"net"

	"google.golang.org/grpc/credentials"

	"github.com/oscarfed/oscarfed/internal/pki"
)

// etcdTLS verifies each server with the authorities of that moment. It tells of handshakes in which one side
// does not trust the other's certificate: etcd's client tries again for ever, and says nothing of why.
type etcdTLS struct {
	credentials.TransportCredentials
	conf  *tls.Config
	roots *pki.Roots
	tell  func(error)
}

func newEtcdTLS(conf *tls.Config, roots *pki.Roots, tell func(error)) etcdTLS {
	return etcdTLS{credentials.NewTLS(conf), conf, roots, tell}
}

// ClientHandshake implements credentials.TransportCredentials.
func (w etcdTLS) ClientHandshake(ctx context.Context, authority string, raw net.Conn) (net.Conn, credentials.AuthInfo, error) {
	conf := w.conf.Clone()
	conf.RootCAs = w.roots.Pool()
	conn, info, err := credentials.NewTLS(conf).ClientHandshake(ctx, authority, raw)
	if err != nil {
		if _, ok := errors.AsType[*tls.CertificateVerificationError](err); ok || refused(err) {
			w.tell(err)
		}
		return conn, info, err
	}
	return &watchedConn{Conn: conn, tell: w.tell}, info, nil
}

// Clone implements credentials.TransportCredentials.
func (w etcdTLS) Clone() credentials.TransportCredentials {
	return etcdTLS{w.TransportCredentials.Clone(), w.conf, w.roots, w.tell}
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
