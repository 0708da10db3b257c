package boot

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/oscarfed/oscarfed/internal/atomicfile"
	"github.com/oscarfed/oscarfed/internal/pki"
	"github.com/oscarfed/oscarfed/store"
	"github.com/oscarfed/oscarfed/store/access"
	"github.com/oscarfed/oscarfed/store/embedded"
	"github.com/oscarfed/oscarfed/store/record"
	"github.com/oscarfed/oscarfed/store/storetest"
)

// external is an etcd that the operator runs, with an authority of his own.
type external struct {
	dir       string
	authority *storetest.Authority
	server    *embedded.Server
}

// start runs it with more authorities that its clients may have.
func (e *external) start(t *testing.T, trust ...string) {
	t.Helper()
	var bundle []byte
	for _, file := range append([]string{e.authority.CAFile}, trust...) {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		bundle = append(bundle, data...)
	}
	ca := filepath.Join(e.dir, "clients.crt")
	if err := os.WriteFile(ca, bundle, 0o600); err != nil {
		t.Fatal(err)
	}
	cert, key := e.authority.Issue("")
	e.server = storetest.Start(t, embedded.Config{Dir: filepath.Join(e.dir, "etcd"), CertFile: cert, KeyFile: key, CAFile: ca})
}

func setup(t *testing.T, args ...string) (status int, out, errs string) {
	t.Helper()
	var o, e bytes.Buffer
	status = EtcdMain(t.Context(), append([]string{"setup", "--log-level", "error"}, args...), nil, &o, &e)
	return status, o.String(), e.String()
}

func TestEtcdSetup(t *testing.T) {
	e := &external{dir: t.TempDir(), authority: storetest.NewAuthority(t)}
	e.start(t)
	ca := filepath.Join(e.dir, "ca")
	args := func(more ...string) []string {
		return append([]string{"--etcd-endpoints", e.server.Endpoint(), "--etcd-ca-file", e.authority.CAFile, "--ca-out", ca}, more...)
	}
	if status, out, errs := setup(t, args("--dry-run")...); status != exitDone || !strings.Contains(out, "would make an authority") {
		t.Fatalf("a first dry run: %d %s %s", status, out, errs)
	}
	if _, err := os.Stat(ca); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a dry run made something: %v", err)
	}
	// The members do not know the authority yet: nothing is changed.
	if status, _, errs := setup(t, args()...); status != exitFailed || !strings.Contains(errs, "--trusted-ca-file") {
		t.Fatalf("members that do not trust the authority: %d %s", status, errs)
	}
	e.server.Close()
	e.start(t, filepath.Join(ca, pki.AuthorityCertFile))
	// A certificate that is not root's would be locked out by what it does.
	cert, key := e.authority.Issue("somebody")
	if status, _, errs := setup(t, args("--etcd-cert-file", cert, "--etcd-key-file", key)...); status != exitFailed || !strings.Contains(errs, `speaks for "somebody"`) {
		t.Fatalf("a certificate of somebody: %d %s", status, errs)
	}
	plain := storetest.Open(t, store.Config{Endpoints: []string{e.server.Endpoint()}, CAFile: e.authority.CAFile, CertFile: cert, KeyFile: key})
	status, out, errs := setup(t, args("--dry-run")...)
	if status != exitDone || !strings.Contains(out, "would add user root") || !strings.Contains(out, "would switch authentication on") {
		t.Fatalf("a dry run: %d %s %s", status, out, errs)
	}
	if on, err := access.New(plain).Enabled(t.Context()); err != nil || on {
		t.Fatalf("after a dry run, authentication is %v, %v", on, err)
	}
	early, err := externalEtcd(Etcd{Endpoints: []string{e.server.Endpoint()}, CAFile: e.authority.CAFile}, Users{Authority: ca}, time.Now, storetest.Logger(t))
	if err != nil {
		t.Fatal(err)
	}
	if st, err := early.open(t.Context()); err == nil || !strings.Contains(err.Error(), "etcd setup") {
		t.Errorf("a control plane began before the set-up: %v", err)
		if err == nil {
			closeStore(st, storetest.Logger(t))
		}
	}
	root, rootKey := e.authority.Issue(access.Root)
	for _, more := range [][]string{nil, nil, {"--etcd-cert-file", root, "--etcd-key-file", rootKey}} {
		if status, out, errs = setup(t, args(more...)...); status != exitDone || !strings.Contains(out, "--etcd-authority "+ca) {
			t.Fatalf("set-up: %d %s %s", status, out, errs)
		}
	}
	if status, out, _ = setup(t, args("--dry-run")...); status != exitDone || out != "nothing is to be done\n" {
		t.Errorf("a dry run afterwards: %d %s", status, out)
	}
	if _, err := plain.Read(t.Context(), record.MetaKey); !errors.Is(err, store.ErrDenied) {
		t.Errorf("somebody reads: %v", err)
	}

	// What it made is what a control plane works with.
	reached, err := externalEtcd(Etcd{Endpoints: []string{e.server.Endpoint()}, CAFile: e.authority.CAFile}, Users{Authority: ca}, time.Now, storetest.Logger(t))
	if err != nil {
		t.Fatal(err)
	}
	if err := mark(t, connect(t, reached.open), record.MetaKey); err != nil {
		t.Errorf("the control plane: %v", err)
	}
	how, err := reached.users.access()
	if err != nil {
		t.Fatal(err)
	}
	if err := how.Admit(t.Context(), "oscar-cluster-a", "uid"); err != nil {
		t.Fatal(err)
	}
	syncer := storetest.Open(t, reached.users.config(access.Syncer("oscar-cluster-a", "uid"), everydayLife))
	if err := mark(t, syncer, record.ObservedClusterKey("oscar-cluster-a")); err != nil {
		t.Errorf("a cluster: %v", err)
	}
	if err := mark(t, syncer, record.ObservedClusterKey("oscar-cluster-b")); !errors.Is(err, store.ErrDenied) {
		t.Errorf("a cluster writes for another: %v", err)
	}
	ca0, endpoints := how.Trust()
	if want, err := os.ReadFile(e.authority.CAFile); err != nil || !bytes.Equal(ca0, want) || endpoints[0] != e.server.Endpoint() {
		t.Errorf("syncers are told %s %v", ca0, endpoints)
	}
}

// The operator puts another authority of etcd's certificates beside the old one, and the servers get theirs of it
// later. A control plane and a gateway that run learn of it, and clusters do when they renew.
func TestAnotherAuthorityOfEtcdIsTakenOver(t *testing.T) {
	next := storetest.NewAuthority(t)
	e := &external{dir: t.TempDir(), authority: storetest.NewAuthority(t)}
	ca := filepath.Join(e.dir, "ca")
	if _, err := pki.LoadOrCreate(ca, authorityName, time.Now); err != nil {
		t.Fatal(err)
	}
	e.start(t, filepath.Join(ca, pki.AuthorityCertFile))
	proxy := storetest.NewProxy(t, e.server.Endpoint())
	if status, _, errs := setup(t, "--etcd-endpoints", e.server.Endpoint(), "--etcd-ca-file", e.authority.CAFile, "--ca-out", ca); status != exitDone {
		t.Fatalf("%d %s", status, errs)
	}
	reached, err := externalEtcd(Etcd{Endpoints: []string{proxy.Endpoint()}, CAFile: e.authority.CAFile}, Users{Authority: ca}, time.Now, storetest.Logger(t))
	if err != nil {
		t.Fatal(err)
	}
	how, err := reached.users.access()
	if err != nil {
		t.Fatal(err)
	}
	st := connect(t, reached.open)

	first, err := os.ReadFile(e.authority.CAFile)
	if err != nil {
		t.Fatal(err)
	}
	second, err := os.ReadFile(next.CAFile)
	if err != nil {
		t.Fatal(err)
	}
	both := slices.Concat(first, second)
	if err := atomicfile.Write(e.authority.CAFile, both, 0o600); err != nil {
		t.Fatal(err)
	}
	if told, _ := how.Trust(); !bytes.Equal(told, both) {
		t.Errorf("a cluster that renews is told %s", told)
	}
	// The server has the files of this name.
	cert, key := next.Issue("")
	for from, to := range map[string]string{cert: filepath.Join(filepath.Dir(e.authority.CAFile), ".crt"), key: filepath.Join(filepath.Dir(e.authority.CAFile), ".key")} {
		if err := os.Rename(from, to); err != nil {
			t.Fatal(err)
		}
	}
	proxy.Cut()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for {
		_, err := st.Read(ctx)
		if err == nil {
			return
		}
		if ctx.Err() != nil {
			t.Fatal(err)
		}
	}
}

// Every wrong way to call it is told as such, and nothing is asked of etcd.
func TestEtcdSetupUsage(t *testing.T) {
	for name, args := range map[string][]string{
		"http": {"--etcd-endpoints", "http://127.0.0.1:1", "--ca-out", t.TempDir()},
		"none": {"--ca-out", t.TempDir()},
		"half": {"--etcd-endpoints", "https://127.0.0.1:1", "--ca-out", t.TempDir(), "--etcd-cert-file", "x"},
	} {
		if status, _, errs := setup(t, args...); status != exitUsage {
			t.Errorf("%s: %d %s", name, status, errs)
		}
	}
	if status := EtcdMain(t.Context(), []string{"other"}, nil, &bytes.Buffer{}, &bytes.Buffer{}); status != exitUsage {
		t.Errorf("another command: %d", status)
	}
}

// A member that accepts every client, and one that does not answer.
func TestEtcdSetupRefusesAMemberThatLetsInEverybody(t *testing.T) {
	authority := storetest.NewAuthority(t)
	cert, key := authority.Issue("")
	pair, err := tls.LoadX509KeyPair(cert, key)
	if err != nil {
		t.Fatal(err)
	}
	l, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{pair}, NextProtos: []string{"h2"}})
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer(grpc.Creds(insecure.NewCredentials()))
	served := make(chan error, 1)
	go func() { served <- server.Serve(l) }()
	args := []string{"--etcd-endpoints", "https://" + l.Addr().String(), "--etcd-ca-file", authority.CAFile, "--ca-out", t.TempDir()}
	if status, _, errs := setup(t, args...); status != exitFailed || !strings.Contains(errs, "without a certificate") {
		t.Errorf("an open member: %d %s", status, errs)
	}
	server.Stop()
	if err := <-served; err != nil {
		t.Error(err)
	}
	if status, _, errs := setup(t, args...); status != exitFailed || !strings.Contains(errs, "no member of etcd answers") {
		t.Errorf("a member that is away: %d %s", status, errs)
	}
}

// A backup of an etcd with users is made by root, and what is restored from it knows
// the same users.
func TestABackupOfAnEtcdWithUsersKeepsThem(t *testing.T) {
	dir, file := t.TempDir(), filepath.Join(t.TempDir(), "backup")
	e := startEmbedded(t, dir, true)
	st := connect(t, e.open)
	_, err := st.Update(t.Context(), store.Update{Build: func(_ store.View, tx *store.Txn) error {
		tx.Put(record.MetaKey, record.Meta{V: 1, Schema: 1, ControlPlane: "cp", Epoch: "first"})
		return nil
	}})
	if err != nil {
		t.Fatal(err)
	}
	how, err := e.users.access()
	if err != nil {
		t.Fatal(err)
	}
	if err := how.Admit(t.Context(), "oscar-cluster-a", "uid"); err != nil {
		t.Fatal(err)
	}
	var out, errs bytes.Buffer
	if status := BackupMain(t.Context(), []string{"--etcd-endpoints", e.server.Endpoint(), "--data-dir", dir, file}, nil, &out, &errs); status != exitDone {
		t.Fatalf("backup: %s", errs.String())
	}
	e.close()
	if err := os.Rename(filepath.Join(dir, "etcd"), filepath.Join(dir, "etcd.old")); err != nil {
		t.Fatal(err)
	}
	if status := RestoreMain(t.Context(), []string{file, "--data-dir", dir}, nil, &out, &errs); status != exitDone {
		t.Fatalf("restore: %s", errs.String())
	}
	again := startEmbedded(t, dir, true)
	meta, _ := read[record.Meta](t, connect(t, again.open), record.MetaKey)
	if meta.Epoch == "first" || meta.ControlPlane != "cp" {
		t.Errorf("restored: %+v", meta)
	}
	syncer := storetest.Open(t, again.users.config(access.Syncer("oscar-cluster-a", "uid"), everydayLife))
	if err := mark(t, syncer, record.ObservedClusterKey("oscar-cluster-a")); err != nil {
		t.Errorf("a cluster that was admitted before: %v", err)
	}
}
