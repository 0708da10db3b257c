package boot

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/oscarfed/oscarfed/internal/pki"
	"github.com/oscarfed/oscarfed/store"
	"github.com/oscarfed/oscarfed/store/access"
	"github.com/oscarfed/oscarfed/store/record"
	"github.com/oscarfed/oscarfed/store/storetest"
	"github.com/oscarfed/oscarfed/test/await"
)

// A cluster works with an external etcd by the gateway alone. The gateway refuses all other
// clients, and every client while etcd has no authentication.
func TestTheGatewayLetsClustersIn(t *testing.T) {
	e := &external{dir: t.TempDir(), authority: storetest.NewAuthority(t)}
	e.start(t)
	ca := filepath.Join(e.dir, "ca")
	args := []string{"--etcd-endpoints", e.server.Endpoint(), "--etcd-ca-file", e.authority.CAFile, "--ca-out", ca}
	if status, _, errs := setup(t, args...); status != exitFailed || !strings.Contains(errs, "--trusted-ca-file") {
		t.Fatalf("%d %s", status, errs)
	}
	e.server.Close()
	e.start(t, filepath.Join(ca, pki.AuthorityCertFile))
	args[1] = e.server.Endpoint()

	cert, key := e.authority.Issue("gateway")
	cfg, err := Load[Gateway]("gateway", "", []string{
		"--listen", "127.0.0.1:0", "--tls-cert-file", cert, "--tls-key-file", key, "--metrics-listen", "",
		"--etcd-endpoints", e.server.Endpoint(), "--etcd-ca-file", e.authority.CAFile, "--etcd-authority", ca,
	}, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	said, out := io.Pipe()
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	registry := prometheus.NewRegistry()
	go func() { ended <- runGateway(ctx, cfg, registry, storetest.Logger(t), out) }()
	line := make([]byte, 200)
	n, err := said.Read(line)
	if err != nil {
		t.Fatal(err)
	}
	_, address, _ := strings.Cut(strings.TrimSpace(string(line[:n])), " on ")

	authority, err := pki.LoadDir(ca, time.Now)
	if err != nil {
		t.Fatal(err)
	}
	const cluster, uid = "oscar-cluster-a", "0199c3a2-0000-7000-8000-0000000000a0"
	as := func(user string) store.Config {
		return store.Config{Endpoints: []string{"https://" + address}, CAFile: e.authority.CAFile, Certificate: authority.Client(user, time.Hour).Certificate, Deadline: 30 * time.Second}
	}
	once := as(access.Syncer(cluster, uid))
	once.Deadline = 1
	if st, err := store.Open(t.Context(), once); err == nil {
		t.Error("a cluster was let in although etcd asks nobody who is calling")
		closeStore(st, storetest.Logger(t))
	}
	if status, _, errs := setup(t, args...); status != exitDone {
		t.Fatalf("%d %s", status, errs)
	}
	reached, err := externalEtcd(Etcd{Endpoints: []string{e.server.Endpoint()}, CAFile: e.authority.CAFile}, Users{Authority: ca}, time.Now, storetest.Logger(t))
	if err != nil {
		t.Fatal(err)
	}
	if err := access.New(connect(t, reached.users.root)).Admit(t.Context(), cluster, uid); err != nil {
		t.Fatal(err)
	}
	syncer := connect(t, func(ctx context.Context) (*store.Store, error) {
		cfg := as(access.Syncer(cluster, uid))
		cfg.Logger = storetest.Logger(t)
		return dialStore(ctx, cfg)
	})
	if err := mark(t, syncer, record.SessionKey(cluster)); err != nil {
		t.Errorf("a cluster: %v", err)
	}
	for _, user := range []string{access.Root, access.ControlPlane, "somebody"} {
		cfg := as(user)
		cfg.Deadline = 1
		if st, err := store.Open(t.Context(), cfg); err == nil {
			t.Errorf("%s was let in", user)
			closeStore(st, storetest.Logger(t))
		}
	}
	// The questions about the connected cluster tell that etcd is gone.
	told := func(want float64) func() bool {
		return func() bool { return gauge(t, registry, "oscarfed_etcd_gateway_etcd_reached") == want }
	}
	await.Until(t, "etcd is reached", told(1))
	e.server.Close()
	await.Until(t, "etcd is gone", told(0))
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

func TestGatewayConfig(t *testing.T) {
	base := []string{"--tls-cert-file=c", "--tls-key-file=k", "--etcd-authority=d"}
	for want, args := range map[string][]string{
		"missing flags":    {},
		"https://":         append(base, "--etcd-endpoints=http://127.0.0.1:2379"),
		"with a port":      append(base, "--etcd-endpoints=https://127.0.0.1:2379", "--listen=here"),
		"is not a setting": append(base, "--etcd-endpoints=https://127.0.0.1:2379", "--config="+unknownSetting(t)),
	} {
		if _, err := Load[Gateway]("gateway", "", args, io.Discard); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: %v", args, err)
		}
	}
}

func unknownSetting(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "gateway.yaml")
	if err := os.WriteFile(path, []byte("etcd_cert_file: x\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}
