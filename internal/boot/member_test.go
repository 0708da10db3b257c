package boot

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/server/v3/embed"
	"go.uber.org/zap"
	"golang.org/x/sync/errgroup"

	"github.com/oscarfed/oscarfed/internal/atomicfile"
	"github.com/oscarfed/oscarfed/internal/pki"
	"github.com/oscarfed/oscarfed/store"
	"github.com/oscarfed/oscarfed/store/storetest"
	"github.com/oscarfed/oscarfed/test/await"
)

// etcdMembers are three members of etcd that are started by the configuration that prepare-member
// writes, as the chart starts them: each from its own data directory, certificates on every way.
type etcdMembers struct {
	t         *testing.T
	dir       string
	authority *storetest.Authority
	cert, key string
	users     string // the authority of etcd's users
	peers     []string
	clients   []string
	running   []*embed.Etcd
}

func newMembers(t *testing.T) *etcdMembers {
	t.Helper()
	e := &etcdMembers{t: t, dir: t.TempDir(), authority: storetest.NewAuthority(t), running: make([]*embed.Etcd, 3)}
	e.cert, e.key = e.authority.Issue("")
	e.users = filepath.Join(e.dir, "users")
	for range 6 {
		l, err := net.Listen("tcp", net.JoinHostPort(e.authority.Address, "0"))
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = l.Close() }() // when all are known: no two are the same
		e.peers = append(e.peers, "https://"+l.Addr().String())
	}
	e.peers, e.clients = e.peers[:3], e.peers[3:]
	if status := e.command("authority", "--ca-out", e.users); status != exitDone {
		t.Fatal("no authority")
	}
	t.Cleanup(func() {
		for i := range e.running {
			e.stop(i)
		}
	})
	return e
}

func (e *etcdMembers) command(args ...string) int {
	var out bytes.Buffer
	status := EtcdMain(e.t.Context(), append(args, "--log-level", "warn"), nil, &out, &out)
	e.t.Logf("etcd %s: %d\n%s", args[0], status, &out)
	return status
}

func member3(i int) string { return fmt.Sprintf("etcd-%d", i) }

// out is where its configuration goes.
func (e *etcdMembers) out(i int) string { return filepath.Join(e.dir, member3(i)+"-out") }

func (e *etcdMembers) data(i int) string { return filepath.Join(e.dir, member3(i)) }

// prepare runs prepare-member, and says whether it wrote a configuration before ctx ended.
func (e *etcdMembers) prepare(ctx context.Context, said *await.Output, i int, more ...string) bool {
	var cluster []string
	for k, url := range e.peers {
		cluster = append(cluster, member3(k)+"="+url)
	}
	common := filepath.Join(e.dir, member3(i)+"-common.yaml")
	err := os.WriteFile(common, []byte(fmt.Sprintf(`data-dir: %q
listen-client-urls: %q
listen-peer-urls: %q
initial-cluster-token: test
initial-cluster: %q
quota-backend-bytes: 4294967296
client-transport-security: {cert-file: %[5]q, key-file: %[6]q, client-cert-auth: true}
peer-transport-security: {cert-file: %[5]q, key-file: %[6]q, trusted-ca-file: %[7]q, client-cert-auth: true}
`, e.data(i), e.clients[i], e.peers[i], strings.Join(cluster, ","), e.cert, e.key, e.authority.CAFile)), 0o600)
	if err = errors.Join(err, os.RemoveAll(e.out(i)), os.MkdirAll(e.out(i), 0o700)); err != nil {
		e.t.Error(err)
		return false
	}
	status := EtcdMain(ctx, append([]string{
		"prepare-member", member3(i), "--member-config", common, "--out", e.out(i), "--advertise-client-url", e.clients[i],
		"--trust", e.authority.CAFile + "," + filepath.Join(e.users, pki.AuthorityCertFile), "--etcd-ca-file", e.authority.CAFile,
	}, more...), nil, said, said)
	_, err = os.Stat(filepath.Join(e.out(i), memberConfigName))
	return status == exitDone && err == nil
}

// start starts a member.
func (e *etcdMembers) start(i int) error {
	cfg, err := embed.ConfigFromFile(filepath.Join(e.out(i), memberConfigName))
	if err != nil {
		return err
	}
	cfg.ZapLoggerBuilder, cfg.UnsafeNoFsync = embed.NewZapLoggerBuilder(zap.NewNop()), true
	cfg.TickMs, cfg.ElectionMs = 50, 500
	e.running[i], err = embed.StartEtcd(cfg)
	return err
}

func (e *etcdMembers) stop(i int) {
	if e.running[i] != nil {
		e.running[i].Close()
		e.running[i] = nil
	}
}

// etcd runs a command against the members.
func (e *etcdMembers) etcd(name string, args ...string) (status int, out string) {
	e.t.Helper()
	var said bytes.Buffer
	args = append(args, "--etcd-endpoints", strings.Join(e.clients, ","), "--etcd-ca-file", e.authority.CAFile, "--log-level", "error")
	status = EtcdMain(e.t.Context(), append([]string{name}, args...), nil, &said, &said)
	return status, said.String()
}

// replaceByHand is what an operator runs.
func (e *etcdMembers) replaceByHand(i int, more ...string) (status int, out string) {
	e.t.Helper()
	return e.etcd("replace-member", append([]string{member3(i), "--etcd-authority", e.users, "--wait", "0"}, more...)...)
}

// lose stops a member and takes its data away.
func (e *etcdMembers) lose(i int) {
	e.t.Helper()
	e.stop(i)
	if err := os.RemoveAll(e.data(i)); err != nil {
		e.t.Fatal(err)
	}
}

// waits demands that a member does not start, and that it says why.
func (e *etcdMembers) waits(i int, why string, more ...string) {
	e.t.Helper()
	ctx, cancel := context.WithCancel(e.t.Context())
	defer cancel()
	out, started := &await.Output{}, make(chan bool)
	go func() { started <- e.prepare(ctx, out, i, more...) }()
	await.Until(e.t, why, func() bool { return strings.Contains(out.String(), why) })
	cancel()
	if <-started {
		e.t.Errorf("%s starts", member3(i))
	}
}

// starts prepares and starts members at the same time.
func (e *etcdMembers) starts(more []string, which ...int) {
	e.t.Helper()
	group, ctx := errgroup.WithContext(e.t.Context()) // each waits for the others
	for _, i := range which {
		group.Go(func() error {
			out := &await.Output{}
			if !e.prepare(ctx, out, i, more...) {
				return fmt.Errorf("%s does not start: %s", member3(i), out)
			}
			return e.start(i)
		})
	}
	if err := group.Wait(); err != nil {
		e.t.Fatal(err)
	}
	e.ready(which...)
}

// ready waits until members are ready.
func (e *etcdMembers) ready(which ...int) {
	e.t.Helper()
	for _, i := range which {
		await.Until(e.t, member3(i)+" is ready", func() bool {
			select {
			case <-e.running[i].Server.ReadyNotify():
				return true
			default:
				return false
			}
		})
	}
}

// A member of etcd that lost its data is another member from then on; it never starts as the one that it
// was, and never alone.
func TestAMemberThatLostItsDataIsReplaced(t *testing.T) {
	t.Parallel()
	e := newMembers(t)
	authority := []string{"--etcd-authority", e.users}
	e.waits(0, "these do not say that they have no data: etcd-1, etcd-2", authority...) // it never begins alone
	e.starts(authority, 0, 1, 2)
	if status, out := e.etcd("setup", "--ca-out", e.users); status != exitDone {
		t.Fatalf("setup: %s", out)
	}
	client := e.root()
	client.SetEndpoints(e.clients[0]) // which stays
	put(t, client, "/kept", "yes")
	before := e.ids(client)

	if status, out := e.replaceByHand(1); status != exitFailed || !strings.Contains(out, "stop it") {
		t.Errorf("a member that runs: %d %s", status, out)
	}
	if status, out := e.replaceByHand(7); status != exitFailed || !strings.Contains(out, "etcd-0, etcd-1, etcd-2") {
		t.Errorf("a member that there is none of: %d %s", status, out)
	}

	// With its data it is the one that it was.
	e.stop(1)
	e.starts(nil, 1)
	// Nobody who could replace it: it waits, and says what to run, which may be run twice.
	e.lose(1)
	e.waits(1, "oscarfed etcd replace-member etcd-1")
	for range 2 {
		if status, out := e.replaceByHand(1); status != exitDone || !strings.Contains(out, "--initial-cluster-state existing --initial-cluster ") || !strings.Contains(out, "etcd-1="+e.peers[1]) {
			t.Fatalf("%d %s", status, out)
		}
	}
	e.starts(nil, 1)
	// The one who does may have ended after the removal.
	e.lose(1)
	if _, err := client.MemberRemove(t.Context(), e.ids(client)[member3(1)]); err != nil {
		t.Fatal(err)
	}
	if status, out := e.replaceByHand(1); status != exitFailed || !strings.Contains(out, "no member of this name") {
		t.Errorf("one that was removed: %d %s", status, out)
	}
	if status, out := e.replaceByHand(1, "--peer-url", e.peers[1]); status != exitDone {
		t.Errorf("one that was removed: %d %s", status, out)
	}
	e.starts(nil, 1)
	// By itself.
	e.lose(2)
	e.starts(authority, 2)
	if status, out := e.replaceByHand(2, "--peer-url", e.peers[2]); status != exitFailed || !strings.Contains(out, "stop it") {
		t.Errorf("a member that runs: %d %s", status, out)
	}
	after := e.ids(client)
	if len(after) != 3 || after[member3(0)] != before[member3(0)] || after[member3(1)] == before[member3(1)] || after[member3(2)] == before[member3(2)] {
		t.Errorf("the members were %v and are %v", before, after)
	}
	for _, url := range e.clients {
		client.SetEndpoints(url)
		if resp := get(t, client, "/kept"); len(resp.Kvs) != 1 {
			t.Errorf("%s: %v", url, resp)
		}
	}

	// Too few are left to agree on anything, or none.
	e.stop(1)
	e.lose(2)
	e.waits(2, "cannot be replaced", authority...)
	if status, out := e.replaceByHand(2); status != exitFailed {
		t.Errorf("without a quorum: %d %s", status, out)
	}
	e.stop(0)
	e.waits(2, "no other member runs", authority...)
}

// Members that wait kept the certificates that they had begun with: where these were wrong, or had ended, the right ones
// were of no use, and nothing said that it was about certificates.
func TestMembersThatWaitTakeTheCertificatesOfTheMoment(t *testing.T) {
	t.Parallel()
	e := newMembers(t)
	right := map[string][]byte{}
	otherCert, otherKey := storetest.NewAuthority(t).Issue("")
	for file, other := range map[string]string{e.cert: otherCert, e.key: otherKey} {
		var err error
		if right[file], err = os.ReadFile(file); err != nil {
			t.Fatal(err)
		}
		wrong, err := os.ReadFile(other)
		if err = errors.Join(err, os.WriteFile(file, wrong, 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	said := make([]await.Output, 3)
	group, ctx := errgroup.WithContext(t.Context())
	for i := range said {
		group.Go(func() error {
			if !e.prepare(ctx, &said[i], i) {
				return fmt.Errorf("%s does not start: %s", member3(i), said[i].String())
			}
			return e.start(i)
		})
	}
	for i := range said {
		await.Until(t, member3(i)+" says what is wrong", func() bool { return strings.Contains(said[i].String(), "its certificate is not trusted here: ") })
	}
	for file, text := range right {
		if err := atomicfile.Write(file, text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := group.Wait(); err != nil {
		t.Fatal(err)
	}
	e.ready(0, 1, 2)
}

// root is a client by the certificate that an operator gets for etcdctl.
func (e *etcdMembers) root() *clientv3.Client {
	e.t.Helper()
	out := filepath.Join(e.dir, "operator")
	if status := e.command("root-certificate", "--etcd-authority", e.users, "--out", out); status != exitDone {
		e.t.Fatal("no certificate")
	}
	client, err := store.Dial(store.Config{
		Endpoints: e.clients, CAFile: e.authority.CAFile, CertFile: filepath.Join(out, "root.crt"), KeyFile: filepath.Join(out, "root.key"), Logger: storetest.Logger(e.t),
	})
	if err != nil {
		e.t.Fatal(err)
	}
	e.t.Cleanup(func() {
		if err := client.Close(); err != nil {
			e.t.Error(err)
		}
	})
	return client
}

// ids are the members, by name.
func (e *etcdMembers) ids(client *clientv3.Client) map[string]uint64 {
	e.t.Helper()
	resp := answered(e.t, func() (*clientv3.MemberListResponse, error) { return client.MemberList(e.t.Context()) })
	out := map[string]uint64{}
	for _, m := range resp.Members {
		out[m.Name] = m.ID
	}
	return out
}
