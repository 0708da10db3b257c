package access_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/oscarfed/oscarfed/internal/pki"
	"github.com/oscarfed/oscarfed/store"
	"github.com/oscarfed/oscarfed/store/access"
	"github.com/oscarfed/oscarfed/store/embedded"
	"github.com/oscarfed/oscarfed/store/gateway"
	"github.com/oscarfed/oscarfed/store/storetest"
)

// embeddedAndGateway runs a test for each way by which a cluster reaches etcd.
func embeddedAndGateway(t *testing.T, run func(t *testing.T, g *guarded)) {
	t.Run("embedded", func(t *testing.T) { run(t, guard(t)) })
	t.Run("gateway", func(t *testing.T) { run(t, guardByGateway(t)) })
}

// guardByGateway is an etcd that its operator runs without any limits, with two clusters that
// reach it by a gateway.
func guardByGateway(t testing.TB) *guarded {
	t.Helper()
	authority := storetest.NewAuthority(t)
	signer, err := pki.LoadOrCreate(filepath.Join(t.TempDir(), "pki"), "the gateway's", time.Now)
	if err != nil {
		t.Fatal(err)
	}
	ca, err := os.ReadFile(authority.CAFile)
	if err != nil {
		t.Fatal(err)
	}
	bundle := filepath.Join(t.TempDir(), "ca.crt")
	if err := os.WriteFile(bundle, append(ca, signer.CertPEM()...), 0o600); err != nil {
		t.Fatal(err)
	}
	cert, key := authority.Issue("")
	server := storetest.Start(t, embedded.Config{CertFile: cert, KeyFile: key, CAFile: bundle})
	g := &guarded{t: t, endpoint: server.Endpoint(), authority: authority}
	g.setUp()
	g.controlPlane = g.open(access.ControlPlane)
	g.startGateway(signer, []string{server.Endpoint()})
	g.admit(clusterA, uidA)
	g.admit(clusterB, uidB)
	return g
}

func (g *guarded) startGateway(signer *pki.Authority, endpoints []string) {
	g.t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		g.t.Fatal(err)
	}
	files, err := pki.OpenFiles(filepath.Join(filepath.Dir(g.authority.CAFile), ".crt"), filepath.Join(filepath.Dir(g.authority.CAFile), ".key"), storetest.Logger(g.t))
	if err != nil {
		g.t.Fatal(err)
	}
	ca, err := os.ReadFile(g.authority.CAFile)
	if err != nil {
		g.t.Fatal(err)
	}
	clients := x509.NewCertPool()
	clients.AppendCertsFromPEM(ca)
	gw := gateway.New(gateway.Config{
		Listener: listener, Certificate: files.GetCertificate, Clients: clients,
		Etcd: store.Config{Endpoints: endpoints, CAFile: g.authority.CAFile},
		As: func(user string) func() (*tls.Certificate, error) {
			return signer.Client(user, 15*time.Minute).Certificate
		}, LeaseKey: []byte("the key of this installation"),
		Interval: 200 * time.Millisecond, Logger: storetest.Logger(g.t),
	})
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error)
	go func() { done <- gw.Run(ctx) }()
	g.t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			g.t.Error(err)
		}
	})
	g.gateway = "https://" + listener.Addr().String()
}
