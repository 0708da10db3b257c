package guard

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"log/slog"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/oscarfed/oscarfed/internal/pki"
	"github.com/oscarfed/oscarfed/test/wire"
)

// A client that holds its handshake up until its certificate is over is not let in. It was, and the
// timer that ends a connection with its certificate then ended the process.
func TestACertificateThatEndsDuringTheHandshake(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const life = 2 * time.Second
		_, err := shakeHands(t, life, func() { <-time.After(life) })
		if err == nil {
			t.Error("the client was let in")
		}
		synctest.Wait()
	})
}

// etcd looks at a certificate when its connection is made, and never again.
func TestAConnectionEndsWithItsCertificate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client, err := shakeHands(t, 2*time.Second, func() {})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := client.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
			t.Errorf("the connection stands: %v", err)
		}
	})
}

// addressed is a connection between two addresses.
type addressed struct {
	net.Conn
	remote, local net.Addr
}

func (a addressed) RemoteAddr() net.Addr { return a.remote }
func (a addressed) LocalAddr() net.Addr  { return a.local }

// A client that binds one port and connects from it to two addresses of the server has two connections. The
// first one was forgotten: it outlived the rights of its user.
func TestConnectionsFromOnePortAreAllEnded(t *testing.T) {
	limits := defaultLimits()
	limits.Connections = 2
	gate := New(Config{Limits: limits, Logger: slog.New(slog.DiscardHandler)}).NewGate(&tls.Config{}, func(string) (string, error) { return "", nil })
	from := &net.TCPAddr{IP: net.IPv4(192, 0, 2, 1), Port: 5000}
	var clients []net.Conn
	for i := range byte(3) {
		client, server := net.Pipe()
		c := &conn{Conn: addressed{server, from, &net.TCPAddr{IP: net.IPv4(192, 0, 2, 2+i), Port: 2379}}, gate: gate, user: "user"}
		err := gate.enter(c, &x509.Certificate{NotAfter: time.Now().Add(time.Hour)})
		if full := i == 2; (err != nil) != full {
			t.Errorf("connection %d: %v", i, err)
		}
		if err == nil {
			clients = append(clients, client)
		}
	}
	if n := gate.Cut("user"); n != 2 {
		t.Errorf("%d connections were ended", n)
	}
	for _, client := range clients {
		_ = client.SetWriteDeadline(time.Now()) // nothing reads from one that stands
		if _, err := client.Write([]byte{0}); !errors.Is(err, io.ErrClosedPipe) {
			t.Errorf("the connection stands: %v", err)
		}
	}
}

// shakeHands connects a client to a gate, with a certificate of a short life. during is called when
// the gate has seen the certificate, before the handshake ends.
func shakeHands(t *testing.T, life time.Duration, during func()) (client net.Conn, err error) {
	t.Helper()
	authority, err := pki.LoadOrCreate(t.TempDir(), "test", time.Now)
	if err != nil {
		t.Fatal(err)
	}
	issue := func(s pki.Subject) tls.Certificate {
		cert, key, err := authority.Issue(s)
		if err != nil {
			t.Fatal(err)
		}
		pair, err := tls.X509KeyPair(cert, key)
		if err != nil {
			t.Fatal(err)
		}
		return pair
	}
	gate := New(Config{Logger: slog.New(slog.DiscardHandler)}).NewGate(&tls.Config{
		Certificates: []tls.Certificate{issue(pki.Subject{Hosts: []string{"server"}, Life: time.Hour})}, NextProtos: []string{"h2"},
		ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: authority.Pool(),
		VerifyConnection: func(tls.ConnectionState) error {
			during()
			return nil
		},
	}, func(string) (string, error) { return "", nil })
	network := wire.ForTest(t)
	listener := network.Host("server").MustListen(t)
	raw, err := network.Host("client").DialContext(t.Context(), "tcp", listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	client = tls.Client(raw, &tls.Config{
		RootCAs: authority.Pool(), ServerName: "server", NextProtos: []string{"h2"},
		Certificates: []tls.Certificate{issue(pki.Subject{Name: "user", Life: life})},
	})
	go func() { _ = client.(*tls.Conn).Handshake() }() // the gate tells how it ends
	accepted, err := listener.Accept()
	if err != nil {
		t.Fatal(err)
	}
	_, _, err = gate.ServerHandshake(accepted)
	return client, err
}
