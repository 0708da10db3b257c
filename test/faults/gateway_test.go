package faults_test

import (
	"log/slog"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	v1 "github.com/oscarfed/oscarfed/api/v1"
	"github.com/oscarfed/oscarfed/internal/pki"
	"github.com/oscarfed/oscarfed/store"
	"github.com/oscarfed/oscarfed/store/access"
	"github.com/oscarfed/oscarfed/store/storetest"
	"github.com/oscarfed/oscarfed/test/invariants"
	"github.com/oscarfed/oscarfed/test/process"
)

// users are those of an etcd whose clusters connect to a gateway.
type users struct {
	t         testing.TB
	dir       string
	authority *pki.Authority
	// gateway is the address that clusters are told.
	gateway string
}

func newUsers(t testing.TB) *users {
	t.Helper()
	u := &users{t: t, dir: t.TempDir()}
	var err error
	if u.authority, err = pki.LoadOrCreate(u.dir, "test authority", time.Now); err != nil {
		t.Fatal(err)
	}
	_, err = u.authority.Server(pki.ServerConfig{File: u.file("server.pem"), Hosts: []string{"127.0.0.1"}, Life: time.Hour, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	return u
}

func (u *users) file(name string) string { return filepath.Join(u.dir, name) }

func (u *users) ca() string { return u.file(pki.AuthorityCertFile) }

// as connects to etcd itself as a user.
func (u *users) as(user string) func(*store.Config) {
	return func(cfg *store.Config) {
		cfg.CAFile, cfg.Certificate = u.ca(), u.authority.Client(user, time.Hour).Certificate
	}
}

// controlPlane are the flags of a control plane.
func (u *users) controlPlane() []string {
	if u == nil {
		return nil
	}
	return []string{"--etcd-authority=" + u.dir, "--etcd-ca-file=" + u.ca(), "--etcd-advertise=" + u.gateway}
}

// join are the flags by which a syncer gets its certificate.
func (u *users) join(f *federation, id string) []string {
	u.t.Helper()
	token, err := f.API(first).IssueJoin(u.t.Context(), id, v1.JoinRequest{})
	if err != nil {
		u.t.Fatal(err)
	}
	return []string{"--control-plane=" + f.Address(first), "--api-endpoint=off", "--join-token-file=" + writeFile(u.t, "token", token.Token)}
}

// A federation works over three members of etcd that its clusters reach by a gateway
// alone, also while the gateway is killed and another one takes its place, and a member
// of etcd with it. Every request ends with a definite outcome, and the outcome is true.
func TestAFederationThroughAGatewayThatIsKilled(t *testing.T) {
	t.Parallel()
	u := newUsers(t)
	etcd := process.StartSecureMembers(t, 3, u.file("server.pem"), u.ca())
	endpoints := strings.Join(etcd.Endpoints(), ",")
	open := func(user string) *store.Store {
		cfg := store.Config{Endpoints: etcd.Endpoints()}
		u.as(user)(&cfg)
		return storetest.Open(t, cfg)
	}
	if err := access.New(open(access.Root)).SetUp(t.Context()); err != nil {
		t.Fatal(err)
	}
	invariants.Guard(t, endpoints, invariants.Options{Fenced: true, Connect: u.as(access.Root)})

	startGateway := func() (*process.Child, string) {
		c := process.Start(t, process.ControlPlane, "etcd-gateway", "--listen=127.0.0.1:0", "--metrics-listen=", "--tls-cert-file="+u.file("server.pem"),
			"--tls-key-file="+u.file("server.pem"), "--etcd-endpoints="+endpoints, "--etcd-ca-file="+u.ca(), "--etcd-authority="+u.dir)
		line, err := c.Ready(t.Context())
		if err != nil {
			t.Error(err)
		}
		return c, "https://" + strings.TrimPrefix(line, "oscar-controlplane: etcd gateway on ")
	}
	gateway, address := startGateway()
	// Clusters know one address, behind which the next gateway takes over.
	front := storetest.NewProxy(t, address)
	u.gateway = front.Endpoint()
	f := federate(t, setup{endpoints: etcd.Endpoints(), store: open(access.ControlPlane), users: u})
	f.key = "gateway"

	const kills = 4
	var killed atomic.Int64
	stop := f.again(func(i int) error {
		switch i % 3 {
		case 2:
			etcd.Kill(i / 3 % 3)
			return etcd.Restart(i / 3 % 3)
		case 1:
			if err := gateway.Stop(); err != nil {
				return err
			}
		default:
			gateway.Kill()
		}
		gateway, address = startGateway()
		front.Retarget(address)
		killed.Add(1)
		return nil
	})
	rounds := f.createAndDelete(&rotating{f: f, names: []string{first}}, func() bool { return killed.Load() >= kills })
	stop()
	t.Logf("%d ends of gateways during %d creates and deletes", killed.Load(), rounds)
}
