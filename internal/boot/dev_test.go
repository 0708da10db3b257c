package boot

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/oscarfed/oscarfed/internal/cli"
	"github.com/oscarfed/oscarfed/test/await"
)

// devFor is a development federation of one cluster with users.
func devFor(t *testing.T) (DevReady, *await.Output) {
	t.Helper()
	cfg := Dev{
		Clusters: 1, Listen: "127.0.0.1:0", EtcdListen: "127.0.0.1:0", DataDir: filepath.Join(t.TempDir(), "data"), Resync: time.Second,
		OpenID: true, OpenIDListen: "127.0.0.1:0", CORSOrigins: []string{"http://localhost:5173"},
	}
	var log await.Output
	ctx, cancel := context.WithCancel(t.Context())
	ready, ended := make(chan DevReady, 1), make(chan error, 1)
	go func() {
		ended <- RunDev(ctx, cfg, slog.New(slog.NewJSONHandler(&log, nil)), func(r DevReady) error { ready <- r; return nil })
	}()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil && ctx.Err() == nil {
			t.Error(err)
		}
	})
	select {
	case r := <-ready:
		return r, &log
	case err := <-ended:
		ended <- err
		t.Fatal(err)
	case <-time.After(await.Limit):
		t.Fatal("it never serves")
	}
	return DevReady{}, nil
}

// answerForm answers the page on which a device's code is typed.
func answerForm(t *testing.T, page string, form url.Values) int {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, page, strings.NewReader(form.Encode()))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	transport := &http.Transport{}
	defer transport.CloseIdleConnections()
	resp, err := (&http.Client{Transport: transport, Timeout: time.Minute}).Do(req)
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	return resp.StatusCode
}

// TestDevWithUsers: the command that dev names works, alice logs in with her password, and neither her
// tokens nor passwords are in the log.
func TestDevWithUsers(t *testing.T) {
	r, log := devFor(t)
	t.Setenv("XDG_CONFIG_HOME", t.TempDir())
	run := func(args ...string) (int, string) {
		var out await.Output
		status := cli.Run(t.Context(), args, strings.NewReader(""), &out, &out)
		return status, out.String()
	}
	if status, out := run("--config", r.Config, "get", "clusters"); status != 0 || !strings.Contains(out, "oscar-cluster-a") {
		t.Fatalf("status %d: %s", status, out)
	}
	if len(r.Users) != 2 || r.Users[0].Subject != "alice" || r.Users[1].Subject != "bob" {
		t.Fatalf("the users are %+v", r.Users)
	}
	// What the control plane knows of its issuer it asks for at its start.
	var errs, out await.Output
	done := make(chan int, 1)
	go func() {
		done <- cli.Run(t.Context(), []string{"login", "--device", "--endpoint", r.API}, strings.NewReader(""), &out, &errs)
	}()
	prompt := regexp.MustCompile(`Open (\S+) on any machine and type the code {2}(\S+)`)
	var shown []string
	await.Until(t, "a code is shown", func() bool {
		shown = prompt.FindStringSubmatch(errs.String())
		return shown != nil || len(done) > 0
	})
	if shown == nil {
		t.Fatal(errs.String())
	}
	form := url.Values{"user_code": {shown[2]}, "subject": {"alice"}, "password": {"wrong"}}
	if status := answerForm(t, shown[1], form); status != http.StatusForbidden {
		t.Errorf("a wrong password: %d", status)
	}
	form.Set("password", r.Users[0].Password)
	if status := answerForm(t, shown[1], form); status != http.StatusOK {
		t.Errorf("the right password: %d", status)
	}
	if status := <-done; status != 0 || !strings.Contains(out.String(), "alice") {
		t.Fatalf("status %d: %s%s", status, out.String(), errs.String())
	}
	// OSCAR's own paths take her token, too.
	if status, out := run("get", "services"); status != 0 {
		t.Errorf("status %d: %s", status, out)
	}
	if status, out := run("doctor"); status != 0 {
		t.Errorf("status %d: %s", status, out)
	}
	if status, out := run("logout"); status != 0 {
		t.Errorf("status %d: %s", status, out)
	}
	for _, secret := range []string{r.Password, r.Users[0].Password, "eyJ", "refresh-", "device-", "code-"} {
		if strings.Contains(log.String(), secret) {
			t.Errorf("the log has %q", secret)
		}
	}
}

func TestTheProviderOfDevIsForThisMachineAlone(t *testing.T) {
	if _, err := listenOpenID(t.Context(), "0.0.0.0:0", slog.New(slog.DiscardHandler)); err == nil || !strings.Contains(err.Error(), "loopback") {
		t.Errorf("%v", err)
	}
}

func TestDevSaysWhatIsWhereAndWhatToTypeNext(t *testing.T) {
	var out bytes.Buffer
	r := DevReady{
		API: "http://127.0.0.1:8080", User: "oscar", Password: "p", Etcd: "http://127.0.0.1:2379", Config: "/tmp/dev/cli.yaml", Issuer: "http://127.0.0.1:8081",
		Clusters: []DevCluster{{ClusterID: "oscar-cluster-a", Endpoint: "http://127.0.0.1:1", User: "oscar", Password: "q"}}, Users: []DevUser{{"alice", "w"}},
	}
	if err := printReady(&out, r, "/tmp/x.log"); err != nil {
		t.Fatal(err)
	}
	want := "WHAT             ADDRESS                USER   PASSWORD\n" +
		"API              http://127.0.0.1:8080  oscar  p\n" +
		"oscar-cluster-a  http://127.0.0.1:1     oscar  q\n" +
		"OpenID           http://127.0.0.1:8081  alice  w\n" +
		"etcd             http://127.0.0.1:2379\n\n" +
		"Page:  http://127.0.0.1:8080/ui\n" +
		"Next:  oscarfed --config /tmp/dev/cli.yaml get clusters\n" +
		"       oscarfed login --endpoint http://127.0.0.1:8080\n" +
		"Log:   /tmp/x.log\n"
	if out.String() != want {
		t.Errorf("got\n%s\nwant\n%s", &out, want)
	}
	path := filepath.Join(t.TempDir(), "dev.log")
	f, err := devLog(path, io.Discard)
	if err != nil || f == nil || f.Name() != path {
		t.Fatalf("%v %v", f, err)
	}
	_ = f.Close()
	if f, err := devLog("", io.Discard); f != nil || err != nil {
		t.Errorf("what is directed elsewhere is left: %v %v", f, err)
	}
}

// "its log says why" sent somebody whose port was taken to another file.
func TestDevSaysWhyItStopped(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	log := filepath.Join(t.TempDir(), "dev.log")
	var stderr bytes.Buffer
	status := DevMain(t.Context(), []string{"--listen", taken.Addr().String(), "--etcd-listen", "127.0.0.1:0", "--log-file", log}, nil, io.Discard, &stderr)
	if said := stderr.String(); status != exitFailed || !strings.Contains(said, "address already in use") || !strings.Contains(said, log) {
		t.Errorf("status %d: %s", status, said)
	}
}
