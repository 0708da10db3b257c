package boot

import (
	"bufio"
	"context"
	"crypto/tls"
	"encoding/base64"
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
	for _, text := range [][]byte{one.CertPEM(), two.CertPEM()} {
		block, _ := pem.Decode(text)
		der = append(der, block.Bytes...)
	}
	got, err := Joining{ControlPlaneCA: base64.StdEncoding.EncodeToString(der)}.ca()
	if err != nil || string(got) != string(one.CertPEM())+string(two.CertPEM()) {
		t.Errorf("%s %v", got, err)
	}
	for _, bad := range []string{"%", "aGVsbG8=", "="} {
		if got, err := (Joining{ControlPlaneCA: bad}).ca(); err == nil {
			t.Errorf("%q is %q", bad, got)
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

// The daemons as they are started: a control plane with the embedded etcd and users,
// and a syncer that joins it, starts again without a token, and knows what it was told.
func TestTheDaemonsJoin(t *testing.T) {
	dir := t.TempDir()
	ca := authority(t)
	cert, key, err := ca.Issue(pki.Subject{Hosts: []string{"127.0.0.1"}, Life: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	file := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	args := []string{
		"--listen=127.0.0.1:0", "--metrics-listen=", "--etcd-listen=127.0.0.1:0", "--etcd-auth", "--data-dir=" + filepath.Join(dir, "cp"),
		"--admin-password-file=" + file("admin", "word"), "--tls-cert-file=" + file("tls.crt", string(cert)), "--tls-key-file=" + file("tls.key", string(key)),
	}
	cfg, err := Load[ControlPlane]("oscar-controlplane", "", args, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	out, in := io.Pipe()
	background(t, func(ctx context.Context, log *slog.Logger) error { return RunControlPlane(ctx, cfg, log, in) })
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	api := "https://" + strings.TrimSpace(strings.TrimPrefix(line, "oscar-controlplane: API on "))
	transport := &http.Transport{TLSClientConfig: &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: ca.Pool()}}
	t.Cleanup(transport.CloseIdleConnections)
	admin, err := client.New(client.Config{Endpoint: api, User: "oscar", Password: "word", Transport: transport})
	if err != nil {
		t.Fatal(err)
	}
	reg, err := admin.RegisterCluster(t.Context(), v1.ClusterSpec{ClusterID: "a", Endpoint: "http://127.0.0.1:1"})
	if err != nil {
		t.Fatal(err)
	}
	token, err := admin.IssueJoin(t.Context(), "a", v1.JoinRequest{})
	if err != nil {
		t.Fatal(err)
	}
	alive := func(want bool) {
		t.Helper()
		limit := time.After(time.Minute)
		for {
			c, err := admin.Cluster(t.Context(), "a")
			if err == nil && c.Alive == want {
				return
			}
			select {
			case <-time.After(20 * time.Millisecond):
			case <-limit:
				t.Fatalf("it is never alive: %t; %+v %v", want, c, err)
			}
		}
	}
	start := func(args ...string) (stop func()) {
		cfg, err := Load[Syncer]("oscar-syncer", "", append([]string{
			"--cluster-id=a", "--metrics-listen=", "--kubernetes=off", "--identity-file=" + filepath.Join(dir, "syncer", "identity.age"),
			"--oscar-endpoint=http://127.0.0.1:1", "--oscar-password-file=" + file("oscar", "word"),
			"--control-plane=" + api, "--control-plane-ca-file=" + file("ca.crt", string(ca.CertPEM())),
		}, args...), io.Discard)
		if err != nil {
			t.Fatal(err)
		}
		return background(t, func(ctx context.Context, log *slog.Logger) error { return RunSyncer(ctx, cfg, log) })
	}
	stop := start("--join-token-file=" + file("token", token.Token+"\n"))
	alive(true)
	stop()
	alive(false)
	stop = start()
	alive(true)
	stop()
	uid, err := os.ReadFile(filepath.Join(dir, "syncer", clusterUIDFile))
	if err != nil || strings.TrimSpace(string(uid)) != reg.UID {
		t.Errorf("it serves %s: %v; want %s", uid, err, reg.UID)
	}

	// Another one that was told nothing and has no token does not start.
	none, err := Load[Syncer]("oscar-syncer", "", []string{
		"--cluster-id=a", "--metrics-listen=", "--kubernetes=off", "--identity-file=" + filepath.Join(dir, "other", "identity.age"),
		"--oscar-endpoint=http://127.0.0.1:1", "--oscar-password-file=" + file("oscar", "word"),
		"--control-plane=" + api, "--control-plane-ca-file=" + file("ca.crt", string(ca.CertPEM())),
	}, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	if err := RunSyncer(t.Context(), none, storetest.Logger(t)); err == nil || !strings.Contains(err.Error(), "oscarfed cluster join") {
		t.Errorf("without a token: %v", err)
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
