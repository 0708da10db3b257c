package boot

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/oscarfed/oscarfed/api/client"
	v1 "github.com/oscarfed/oscarfed/api/v1"
	"github.com/oscarfed/oscarfed/internal/pki"
	"github.com/oscarfed/oscarfed/store/seal"
	"github.com/oscarfed/oscarfed/store/storetest"
	"github.com/oscarfed/oscarfed/syncer/session"
)

func TestJoiningOrEtcd(t *testing.T) {
	base := []string{"--cluster-id=a", "--oscar-endpoint=http://127.0.0.1:1", "--oscar-password-file=x"}
	const cp = "--control-plane=https://api.example.org"
	for _, tt := range []struct {
		args []string
		says string // empty: accepted
	}{
		{[]string{cp}, ""},
		{[]string{cp, "--join-token-file=-", "--control-plane-ca-file=ca.crt", "--data-dir=d", "--client-key-file=k"}, ""},
		{[]string{"--etcd-endpoints=https://127.0.0.1:1", "--etcd-cert-file=c", "--etcd-key-file=k"}, ""},
		{nil, "--control-plane to join, or --etcd-endpoints"},
		{[]string{cp, "--etcd-endpoints=https://127.0.0.1:1"}, "not both"},
		{[]string{cp, "--etcd-ca-file=x"}, "not both"},
		{[]string{cp, "--control-plane-ca-file=x", "--control-plane-ca=x"}, "not both"},
		{[]string{"--etcd-endpoints=https://127.0.0.1:1", "--join-token-file=x"}, "go with --control-plane"},
		{[]string{"--control-plane=http://api.example.org"}, "plain HTTP"},
	} {
		_, err := Load[Syncer]("oscar-syncer", "", append(base, tt.args...), io.Discard)
		if tt.says == "" && err != nil || tt.says != "" && (!errors.Is(err, ErrUsage) || !strings.Contains(err.Error(), tt.says)) {
			t.Errorf("%v: %v; want %q", tt.args, err, tt.says)
		}
	}
}

func TestInlineAuthorities(t *testing.T) {
	one, two := authority(t), authority(t)
	var der []byte
	want := x509.NewCertPool()
	for _, text := range [][]byte{one.CertPEM(), two.CertPEM()} {
		block, _ := pem.Decode(text)
		der = append(der, block.Bytes...)
		want.AppendCertsFromPEM(text)
	}
	got, err := Joining{ControlPlaneCA: base64.StdEncoding.EncodeToString(der)}.roots(storetest.Logger(t))
	if err != nil || !got.Pool().Equal(want) {
		t.Errorf("%v %v", got, err)
	}
	for _, bad := range []string{"%", "aGVsbG8=", "="} {
		if _, err := (Joining{ControlPlaneCA: bad}).roots(storetest.Logger(t)); err == nil {
			t.Errorf("%q is taken", bad)
		}
	}
}

func TestTheTokenIsTheFirstLine(t *testing.T) {
	for text, want := range map[string]string{"ofj_1\n": "ofj_1", "ofj_1": "ofj_1", " ofj_1 \r\nmore": "ofj_1", "": ""} {
		read := Joining{JoinTokenFile: "-"}.token(strings.NewReader(text))
		for range 2 { // what was read once is not there a second time
			if got, err := read(); err != nil || got != want {
				t.Errorf("%q: %q %v", text, got, err)
			}
		}
		if text == "" {
			continue // an empty file is an error
		}
		if got, err := (Joining{JoinTokenFile: write(t, "token", strings.SplitAfter(text, "\n")[0])}).token(nil)(); err != nil || got != want {
			t.Errorf("a file with %q: %q %v", text, got, err)
		}
	}
}

func authority(t *testing.T) *pki.Authority {
	t.Helper()
	a, err := pki.LoadOrCreate(filepath.Join(t.TempDir(), "pki"), "test", time.Now)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// daemons are a control plane with the embedded etcd and users, and the syncer of cluster a, as they
// are started on machines.
type daemons struct {
	t *testing.T
	// dir has the directories cp and syncer, and files of secrets.
	dir string
	ca  *pki.Authority
	// listen and etcd are the control plane's addresses; its first start chooses ports.
	listen, etcd string
	api          string
	admin        *client.Client
	// stdin is the syncer's standard input; nil for one that has no use for it.
	stdin io.Reader
}

func newDaemons(t *testing.T) *daemons {
	t.Helper()
	d := &daemons{t: t, dir: t.TempDir(), ca: authority(t), listen: "127.0.0.1:0", etcd: "127.0.0.1:0"}
	cert, key, err := d.ca.Issue(pki.Subject{Hosts: []string{"127.0.0.1"}, Life: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{
		"admin": "word", "oscar": "word", "tls.crt": string(cert), "tls.key": string(key), "ca.crt": string(d.ca.CertPEM()),
	} {
		d.write(name, text)
	}
	return d
}

func (d *daemons) path(name ...string) string {
	return filepath.Join(append([]string{d.dir}, name...)...)
}

func (d *daemons) write(name, text string) string {
	d.t.Helper()
	if err := os.WriteFile(d.path(name), []byte(text), 0o600); err != nil {
		d.t.Fatal(err)
	}
	return d.path(name)
}

// controlPlane starts it, at the addresses of before.
func (d *daemons) controlPlane(args ...string) (stop func()) {
	d.t.Helper()
	cfg, err := Load[ControlPlane]("oscar-controlplane", "", append([]string{
		"--listen=" + d.listen, "--metrics-listen=", "--etcd-listen=" + d.etcd, "--etcd-auth", "--data-dir=" + d.path("cp"),
		"--admin-password-file=" + d.path("admin"), "--tls-cert-file=" + d.path("tls.crt"), "--tls-key-file=" + d.path("tls.key"),
	}, args...), io.Discard)
	if err != nil {
		d.t.Fatal(err)
	}
	out, in := io.Pipe()
	stop = background(d.t, func(ctx context.Context, log *slog.Logger) error { return RunControlPlane(ctx, cfg, log, in) })
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		d.t.Fatal(err)
	}
	d.listen = strings.TrimSpace(strings.TrimPrefix(line, "oscar-controlplane: API on "))
	d.api = "https://" + d.listen
	transport := &http.Transport{TLSClientConfig: &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: d.ca.Pool()}}
	d.t.Cleanup(transport.CloseIdleConnections)
	if d.admin, err = client.New(client.Config{Endpoint: d.api, User: "oscar", Password: "word", Transport: transport}); err != nil {
		d.t.Fatal(err)
	}
	return stop
}

// invite registers the cluster, and answers its uid and where its token is.
func (d *daemons) invite() (uid, token string) {
	d.t.Helper()
	reg, err := d.admin.RegisterCluster(d.t.Context(), v1.ClusterSpec{ClusterID: "a", Endpoint: "http://127.0.0.1:1"})
	if err != nil {
		d.t.Fatal(err)
	}
	issued, err := d.admin.IssueJoin(d.t.Context(), "a", v1.JoinRequest{})
	if err != nil {
		d.t.Fatal(err)
	}
	return reg.UID, d.write("token", issued.Token+"\n")
}

// syncer is the configuration of one with a directory of its own.
func (d *daemons) syncer(dir string, args ...string) Syncer {
	d.t.Helper()
	cfg, err := Load[Syncer]("oscar-syncer", "", append([]string{
		"--cluster-id=a", "--metrics-listen=", "--kubernetes=off", "--identity-file=" + d.path(dir, "identity.age"),
		"--oscar-endpoint=http://127.0.0.1:1", "--oscar-password-file=" + d.path("oscar"),
		"--control-plane=" + d.api, "--control-plane-ca-file=" + d.path("ca.crt"),
	}, args...), io.Discard)
	if err != nil {
		d.t.Fatal(err)
	}
	return cfg
}

func (d *daemons) startSyncer(args ...string) (stop func()) {
	d.t.Helper()
	cfg := d.syncer("syncer", args...)
	return background(d.t, func(ctx context.Context, log *slog.Logger) error { return RunSyncer(ctx, cfg, d.stdin, log) })
}

// alive waits until the cluster is, or is not.
func (d *daemons) alive(want bool) {
	d.t.Helper()
	d.becomes(fmt.Sprintf("alive: %t", want), func(c *v1.Cluster) bool { return c.Alive == want })
}

// becomes waits until the cluster is as it should be.
func (d *daemons) becomes(what string, as func(*v1.Cluster) bool) {
	d.t.Helper()
	limit := time.After(time.Minute)
	for {
		c, err := d.admin.Cluster(d.t.Context(), "a")
		if err == nil && as(c) {
			return
		}
		select {
		case <-time.After(20 * time.Millisecond):
		case <-limit:
			d.t.Fatalf("it is never %s; %+v %v", what, c, err)
		}
	}
}

// A syncer joins a control plane, starts again without a token, and knows what it was told.
func TestTheDaemonsJoin(t *testing.T) {
	d := newDaemons(t)
	d.controlPlane()
	registered, token := d.invite()
	stop := d.startSyncer("--join-token-file=" + token)
	d.alive(true)
	stop()
	d.alive(false)
	stop = d.startSyncer()
	d.alive(true)
	stop()
	uid, err := os.ReadFile(d.path("syncer", clusterUIDFile))
	if err != nil || strings.TrimSpace(string(uid)) != registered {
		t.Errorf("it serves %s: %v; want %s", uid, err, registered)
	}

	// Another one that was told nothing and has no token does not start.
	if err := RunSyncer(t.Context(), d.syncer("other"), d.stdin, storetest.Logger(t)); err == nil || !strings.Contains(err.Error(), "oscarfed cluster join") {
		t.Errorf("without a token: %v", err)
	}
}

// The machine of a control plane is gone, and a backup is restored on an empty one. With the keys in
// the backup nothing has changed for a syncer; without, it meets an etcd of another authority, and
// learns that one by itself. Neither needs a hand.
func TestSyncersAreBackAfterARestoreOnAnEmptyMachine(t *testing.T) {
	for name, sealed := range map[string]bool{"with keys": true, "without keys": false} {
		t.Run(name, func(t *testing.T) {
			d := newDaemons(t)
			stop := d.controlPlane()
			_, token := d.invite()
			d.stdin = open(t, token)
			d.startSyncer("--join-token-file=-", "--session-ttl=5s")
			d.alive(true)
			d.etcd = etcdOf(t, d.path("syncer", "enrolment.json"))

			recovery, err := seal.LoadOrCreate(d.path("recovery.age"))
			if err != nil {
				t.Fatal(err)
			}
			backup := Backup{File: d.path("backup"), DataDir: d.path("cp"), Timeout: time.Minute}
			backup.Endpoints = []string{"https://" + d.etcd}
			restore := Restore{File: backup.File, DataDir: d.path("cp")}
			if sealed {
				backup.Recipients, restore.RecoveryIdentity = []string{recovery.Recipient()}, d.path("recovery.age")
			}
			if err := RunBackup(t.Context(), backup, storetest.Logger(t), io.Discard); err != nil {
				t.Fatal(err)
			}
			identity, err := os.ReadFile(d.path("cp", identityName))
			if err != nil {
				t.Fatal(err)
			}
			stop()
			if err := os.RemoveAll(d.path("cp")); err != nil {
				t.Fatal(err)
			}
			if err := RunRestore(t.Context(), restore, storetest.Logger(t), io.Discard); err != nil {
				t.Fatal(err)
			}
			if !sealed { // it was kept in another place
				if err := os.WriteFile(d.path("cp", identityName), identity, 0o600); err != nil {
					t.Fatal(err)
				}
			}
			d.controlPlane()
			// Its session is in the backup; a stream to the control plane is opened when etcd was reached.
			d.becomes("back", func(c *v1.Cluster) bool { return c.Alive && c.Stream })
		})
	}
}

// open is a standard input with the text of a file, at the end of which somebody may write more.
func open(t *testing.T, file string) io.Reader {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	more, in := io.Pipe()
	context.AfterFunc(t.Context(), func() { _ = in.Close() })
	return io.MultiReader(bytes.NewReader(text), more)
}

// enrolment is what a syncer was told when it joined.
func enrolment(t *testing.T, file string) (told v1.Enrolment) {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(data, &told); err != nil || len(told.EtcdEndpoints) != 1 {
		t.Fatalf("it was told %v: %v", told.EtcdEndpoints, err)
	}
	return told
}

// etcdOf is the address of etcd that a syncer was told.
func etcdOf(t *testing.T, file string) string {
	t.Helper()
	return strings.TrimPrefix(enrolment(t, file).EtcdEndpoints[0], "https://")
}

func TestACertificateLivesAsLongAsTheOperatorSays(t *testing.T) {
	d := newDaemons(t)
	d.controlPlane("--cluster-certificate-life=20m")
	_, token := d.invite()
	d.startSyncer("--join-token-file=" + token)
	d.alive(true)
	block, _ := pem.Decode([]byte(enrolment(t, d.path("syncer", "enrolment.json")).Certificate))
	if block == nil {
		t.Fatal("the certificate is not PEM")
	}
	cert, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	if got := pki.Life(cert); got != 20*time.Minute {
		t.Errorf("it is valid for %s", got)
	}
	for _, life := range []string{"59s", "24h1s"} {
		_, err := Load[ControlPlane]("oscar-controlplane", "", []string{
			"--admin-password-file=" + d.path("admin"), "--cluster-certificate-life=" + life,
		}, io.Discard)
		if err == nil || !strings.Contains(err.Error(), "--cluster-certificate-life must be from 1m to 24h") {
			t.Errorf("%s: %v", life, err)
		}
	}
}

// background runs a daemon until the test's end, or until stop is called.
func background(t *testing.T, run func(context.Context, *slog.Logger) error) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := run(ctx, storetest.Logger(t)); err != nil && ctx.Err() == nil {
			t.Error(fmt.Errorf("a daemon ended: %w", err))
		}
	}()
	stop = func() {
		cancel()
		<-done
	}
	t.Cleanup(stop)
	return stop
}

func TestWhoHasJoinedServesNoOtherRegistration(t *testing.T) {
	memory := session.MemoryFile(filepath.Join(t.TempDir(), "uid"))
	for _, uid := range []string{"joined", "later"} {
		if err := rememberFirst(memory, uid); err != nil {
			t.Fatal(err)
		}
		if got, err := memory.Load(); err != nil || got != "joined" {
			t.Errorf("it remembers %q: %v", got, err)
		}
	}
}
