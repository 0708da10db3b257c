package oscarsim_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/oscarfed/oscarfed/internal/oscarsim"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	user     = "oscar"
	password = "secret"
)

// plain is a service with input and output in its own bucket.
func plain(name string) string {
	return `{"name":"` + name + `","image":"i","script":"s","owner":"cluster_admin","input":[{"storage_provider":"minio.default","path":"` + name +
		`/in"}],"output":[{"storage_provider":"minio.default","path":"` + name + `/out"}]}`
}

// bare is a service without storage.
func bare(name string) string { return `{"name":"` + name + `","image":"i","script":"s"}` }

type answer struct {
	status int
	body   string
	err    error // the connection was dropped
}

// ask sends a request over the network with the administrator's credentials.
func ask(t *testing.T, url, method, path, body string, change ...func(*http.Request)) answer {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, url+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.SetBasicAuth(user, password)
	for _, f := range change {
		f(req)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return answer{err: err}
	}
	defer func() { _ = resp.Body.Close() }()
	got, err := io.ReadAll(resp.Body)
	return answer{resp.StatusCode, string(got), err}
}

// serve runs a simulator behind a server that ends with the test.
func serve(t *testing.T, cfg oscarsim.Config) (*oscarsim.Sim, string) {
	t.Helper()
	cfg.User, cfg.Password = user, password
	sim := oscarsim.New(cfg)
	srv := httptest.NewServer(sim.Handler())
	t.Cleanup(func() {
		sim.Kill()
		http.DefaultClient.CloseIdleConnections()
		srv.Close()
	})
	return sim, srv.URL
}

func want(t *testing.T, got answer, status int, body string) {
	t.Helper()
	if got.err != nil {
		t.Fatalf("no answer: %v", got.err)
	}
	if got.status != status || strings.TrimSuffix(got.body, "\n") != body {
		t.Fatalf("got %d %q, want %d %q", got.status, got.body, status, body)
	}
}

func TestLifeOfAService(t *testing.T) {
	sim, url := serve(t, oscarsim.Config{})
	want(t, ask(t, url, "POST", "/system/services", plain("one")), 201, "")
	b, ok := sim.Bucket("one")
	if !ok || strings.Join(b.Objects, " ") != "in/ out/" || b.Tags["from_service"] != "one" {
		t.Fatalf("bucket %+v", b)
	}
	if err := sim.Upload("one", "in/a"); err != nil {
		t.Fatal(err)
	}
	if jobs := sim.Jobs("one"); len(jobs) != 1 || jobs[0].Status != oscarsim.JobPending || !strings.Contains(jobs[0].Event, `"Key":"one/in/a"`) {
		t.Fatalf("jobs %+v", jobs)
	}
	want(t, ask(t, url, "PUT", "/system/services", plain("one")), 204, "")
	want(t, ask(t, url, "DELETE", "/system/services/one", ""), 204, "")
	want(t, ask(t, url, "GET", "/system/services", ""), 200, "[]")
	if st := sim.State(); len(st.Services)+len(st.Buckets)+len(st.Jobs)+len(st.Webhooks)+len(st.Secrets) != 0 {
		t.Fatalf("something stayed: %+v", st)
	}
}

func TestListOrder(t *testing.T) {
	sim, url := serve(t, oscarsim.Config{})
	want(t, ask(t, url, "GET", "/system/buckets", ""), 200, "null") // OSCAR's own: not an empty list
	for _, def := range []string{bare("b"), strings.Replace(bare("z"), `"image"`, `"namespace":"default","image"`, 1), bare("a")} {
		if err := sim.PutService(def); err != nil {
			t.Fatal(err)
		}
	}
	var list []struct{ Name, Namespace string }
	if err := json.Unmarshal([]byte(ask(t, url, "GET", "/system/services", "").body), &list); err != nil {
		t.Fatal(err)
	}
	if got := fmt.Sprint(list); got != "[{z default} {a oscar-svc} {b oscar-svc}]" {
		t.Fatalf("list %s", got)
	}
	want(t, ask(t, url, "POST", "/system/services", strings.Replace(bare("c"), `"image"`, `"namespace":"nowhere","image"`, 1)), 500,
		`Error creating the service: namespaces "nowhere" not found`)
}

// TestServeEndsWithItsContext stops an OSCAR in the middle of a create and serves it again.
func TestServeEndsWithItsContext(t *testing.T) {
	sim := oscarsim.New(oscarsim.Config{User: user, Password: password, Latency: time.Hour})
	run := func(use func(url string, stop func())) {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		done := make(chan error, 1)
		go func() { done <- sim.Serve(ctx, l) }()
		use("http://"+l.Addr().String(), func() {
			cancel()
			if err := <-done; err != nil {
				t.Fatal(err)
			}
		})
		http.DefaultClient.CloseIdleConnections()
	}
	run(func(url string, stop func()) {
		create := make(chan answer, 1)
		go func() { create <- ask(t, url, "POST", "/system/services", plain("one")) }()
		for len(sim.Services()) == 0 { // until it is visible
			select {
			case got := <-create:
				t.Fatalf("the create answered %+v", got)
			default:
				runtime.Gosched()
			}
		}
		stop()
		if got := <-create; got.err == nil {
			t.Errorf("the create answered %d", got.status)
		}
	})
	if log := sim.Log(); len(log) != 1 || log[0].Status != 0 || log[0].Done.IsZero() {
		t.Errorf("log %+v", log)
	}
	run(func(url string, stop func()) {
		want(t, ask(t, url, "POST", "/system/services", plain("one")), 400, "A service with the provided name already exists")
		if len(sim.Buckets()) != 0 {
			t.Errorf("buckets %v", sim.Buckets())
		}
		stop()
	})
}
