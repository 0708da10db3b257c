package manager_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/oscarfed/oscarfed/internal/oscarsim"
	"github.com/oscarfed/oscarfed/syncer/manager"
	"github.com/oscarfed/oscarfed/test/wire"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const password = "not to be seen"

func client(t *testing.T, handler http.Handler, change ...func(*manager.Config)) *manager.Client {
	t.Helper()
	n := wire.New(1)
	l, err := n.Host("oscar").Listen(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	server := &httptest.Server{Listener: l, Config: &http.Server{Handler: handler, ReadHeaderTimeout: time.Minute}}
	server.Start()
	file := filepath.Join(t.TempDir(), "password")
	if err := os.WriteFile(file, []byte(password+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	cfg := manager.Config{Endpoint: server.URL, User: "oscar", PasswordFile: file, Transport: n.Host("syncer").Transport(nil)}
	for _, c := range change {
		c(&cfg)
	}
	c, err := manager.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		c.Close()
		server.CloseClientConnections()
		server.Close()
	})
	return c
}

// An error keeps of a long answer what it shows: thousands of services may each have one. What follows is not read.
func TestAnErrorKeepsNoMoreOfAnAnswerThanItShows(t *testing.T) {
	const long, calls = 4 << 20, 16
	var sent atomic.Int64
	c := client(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusInternalServerError)
		piece := []byte(strings.Repeat("<p>all went wrong</p>\n", 1000))
		for n := 0; n < long; n += len(piece) {
			if _, err := w.Write(piece); err != nil {
				return // nobody reads on
			}
			sent.Add(int64(len(piece)))
		}
	}))
	heap := func() int64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc)
	}
	before := heap()
	errs := make([]error, calls)
	for i := range errs {
		errs[i] = c.Create(t.Context(), "svc", []byte("{}"), "", time.Minute)
		if api, ok := errors.AsType[*manager.APIError](errs[i]); !ok || api.Status != 500 || !strings.HasPrefix(api.Body, "<p>all went") || len(api.Body) > 4096 {
			t.Fatalf("%.200v", errs[i])
		}
	}
	if kept := heap() - before; kept > long {
		t.Errorf("%d errors keep %d bytes", len(errs), kept)
	}
	if sent.Load() > calls*long/2 {
		t.Errorf("%d bytes were read", sent.Load())
	}
	runtime.KeepAlive(errs)
}

// TestAgainstOSCAR takes a service through its life.
func TestAgainstOSCAR(t *testing.T) {
	sim := oscarsim.New(oscarsim.Config{User: "oscar", Password: password})
	t.Cleanup(sim.Kill)
	c := client(t, sim.Handler())
	ctx := t.Context()

	if info, err := c.Info(ctx); err != nil || info.Version != "v4.1.2" {
		t.Errorf("info %+v, %v", info, err)
	}
	if storage, err := c.Storage(ctx); err != nil || storage.Endpoint == "" || storage.Region == "" {
		t.Errorf("storage %+v, %v", storage, err)
	}
	if nodes, err := c.Nodes(ctx); err != nil || len(nodes) != 1 || nodes[0].MilliCPU != 4000 || nodes[0].MemoryBytes != 8<<30 || !nodes[0].Ready {
		t.Errorf("nodes %+v, %v", nodes, err)
	}
	if list, err := c.List(ctx); err != nil || len(list) != 0 {
		t.Errorf("list %v, %v", list, err)
	}
	if _, err := c.Get(ctx, "svc"); !manager.NotFound(err) {
		t.Errorf("get of nothing: %v", err)
	}
	body := `{"name":"svc","image":"i","script":"s","input":[{"storage_provider":"minio","path":"svc/in"}]}`
	if err := c.Create(ctx, "svc", []byte(body), "", time.Minute); err != nil {
		t.Fatal(err)
	}
	service, err := c.Get(ctx, "svc")
	if err != nil || service.Name != "svc" || service.Owner != "cluster_admin" || len(service.Token) != 64 || !service.Storage {
		t.Fatalf("get %+v, %v", service, err)
	}
	list, err := c.List(ctx)
	if err != nil || len(list) != 1 || string(list[0].JSON) != string(service.JSON) {
		t.Errorf("the list shows another service than GET: %v", err)
	}
	if buckets, err := c.Buckets(ctx); err != nil || len(buckets) != 1 || buckets[0].FromService() != "svc" {
		t.Errorf("buckets %+v, %v", buckets, err)
	}
	if _, err := sim.AddJob("svc", oscarsim.JobRunning); err != nil {
		t.Fatal(err)
	}
	page, err := c.Jobs(ctx, "svc", "")
	if err != nil || len(page.Jobs) != 1 || page.Next != "" {
		t.Fatalf("jobs %v, %v", page, err)
	}
	for name, job := range page.Jobs {
		if job.Ended() {
			t.Errorf("job %s has ended: %+v", name, job)
		}
	}
	// OSCAR says 500 and has done it: the client says what it was told.
	err = c.Update(ctx, "svc", []byte(`{"name":"svc","image":"i","script":"s","owner":"cluster_admin"}`), "", time.Minute)
	if api, ok := errors.AsType[*manager.APIError](err); !ok || api.Status != 500 || api.Definite() || api.Unanswered() {
		t.Errorf("update: %v", err)
	}
	if service, err := c.Get(ctx, "svc"); err != nil || service.Storage {
		t.Errorf("after it: %+v, %v", service, err)
	}
	if err := c.Delete(ctx, "svc", time.Minute); err != nil {
		t.Error(err)
	}
	if err := c.Delete(ctx, "svc", time.Minute); !manager.NotFound(err) {
		t.Errorf("second delete: %v", err)
	}
	if err := c.DeleteBucket(ctx, "svc", "", time.Minute); err != nil {
		t.Error(err)
	}
}

// TestWhatAnErrorTells: refused, unanswered, or neither.
func TestWhatAnErrorTells(t *testing.T) {
	answer := func(status int, body string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(status)
			_, _ = w.Write([]byte(body))
		}
	}
	drop := func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }
	for _, tc := range []struct {
		name                 string
		handler              http.HandlerFunc
		status               int
		definite, unanswered bool
		refused              bool
	}{
		{"400", answer(400, "no"), 400, true, false, false},
		{"401 with a JSON tail", answer(401, `{"services":[]}`), 401, true, false, true},
		{"403", answer(403, ""), 403, true, false, true},
		{"404", answer(404, ""), 404, true, false, false},
		{"408", answer(408, ""), 408, false, false, false},
		{"409", answer(409, ""), 409, true, false, false},
		{"429", answer(429, ""), 429, false, false, false},
		{"500", answer(500, "yet applied"), 500, false, false, false},
		{"502", answer(502, "<html>"), 502, false, false, false},
		{"a redirect", func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/elsewhere", http.StatusFound) }, 302, false, false, false},
		{"dropped", drop, 0, false, true, false},
		{"an answer that breaks off", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "100")
			_, _ = w.Write([]byte("short"))
		}, 0, false, true, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			err := client(t, tc.handler).Create(t.Context(), "svc", []byte(`{}`), "", time.Minute)
			api, ok := errors.AsType[*manager.APIError](err)
			if !ok {
				t.Fatalf("error %v", err)
			}
			if api.Status != tc.status || api.Definite() != tc.definite || api.Unanswered() != tc.unanswered || manager.Refused(err) != tc.refused {
				t.Errorf("%v: status %d, definite %v, unanswered %v, refused %v", err, api.Status, api.Definite(), api.Unanswered(), manager.Refused(err))
			}
			if api.Op != manager.OpCreate || api.Service != "svc" || strings.Contains(err.Error(), password) {
				t.Errorf("error %v", err)
			}
		})
	}
}

// A user's token is not admitted, too, when its issuer has ended its login: OSCAR answers 500 with the issuer's words.
func TestWhoIsNotAdmitted(t *testing.T) {
	for body, want := range map[string]bool{
		`401 Unauthorized: {"error":"invalid_token"}missing user identificator`: true, //nolint:misspell // the status of HTTP
		"error creating MinIO user": false,
	} {
		if got := manager.NotAdmitted(&manager.APIError{Status: http.StatusInternalServerError, Body: body}); got != want {
			t.Errorf("500 %s: %v", body, got)
		}
	}
}

func TestTimeoutIsUnanswered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		asked := make(chan struct{})
		c := client(t, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			_, _ = r.Body.Read(make([]byte, 10))
			close(asked)
			<-r.Context().Done()
		}))
		began := time.Now()
		err := c.Create(t.Context(), "svc", []byte(`{}`), "", time.Minute)
		<-asked
		if api, ok := errors.AsType[*manager.APIError](err); !ok || !api.Unanswered() || !errors.Is(err, context.DeadlineExceeded) || time.Since(began) != time.Minute {
			t.Errorf("error %v after %s", err, time.Since(began))
		}
	})
}

func TestNotSentIsNotUnanswered(t *testing.T) {
	for name, c := range map[string]*manager.Client{
		"nobody listens":          client(t, nil, func(c *manager.Config) { c.Endpoint = "http://nobody:80" }),
		"no password":             client(t, nil, func(c *manager.Config) { c.PasswordFile += ".missing" }),
		"a name that is no place": client(t, nil),
	} {
		service := "svc"
		if strings.Contains(name, "place") {
			service = ".."
		}
		err := c.Delete(t.Context(), service, time.Minute)
		if api, ok := errors.AsType[*manager.APIError](err); !ok || api.Status != 0 || api.Unanswered() || api.Definite() {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestNamesCannotLeadElsewhere(t *testing.T) {
	paths := make(chan string, 1)
	c := client(t, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { paths <- r.URL.EscapedPath() }))
	if err := c.Delete(t.Context(), "a/../b?x=y", time.Minute); err != nil {
		t.Fatal(err)
	}
	if got, want := <-paths, "/system/services/a%2F..%2Fb%3Fx=y"; got != want {
		t.Errorf("path %s, want %s", got, want)
	}
}

func TestAnswersAreLimited(t *testing.T) {
	c := client(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write([]byte(`{"name":"`))
		chunk := []byte(strings.Repeat("a", 1<<20))
		for range 16 {
			if _, err := w.Write(chunk); err != nil {
				return
			}
		}
	}))
	if _, err := c.Get(t.Context(), "svc"); err == nil || !strings.Contains(err.Error(), "larger than") {
		t.Errorf("error %v", err)
	}
	long := client(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(500)
		_, _ = w.Write([]byte(strings.Repeat("x", 10_000)))
	}))
	_, err := long.List(t.Context())
	if api, ok := errors.AsType[*manager.APIError](err); !ok || len(api.Error()) > 600 || len(api.Body) != 4096 {
		t.Errorf("an error of %d bytes", len(err.Error()))
	}
}

func TestJobsAreReadByPages(t *testing.T) {
	c := client(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Query().Get("page") {
		case "":
			_, _ = w.Write([]byte(`{"jobs":{"a":{"status":"Succeeded"}},"next_page":"two"}`))
		case "two":
			_, _ = w.Write([]byte(`{"jobs":{"b":{"status":"Running"}}}`))
		default:
			_, _ = w.Write([]byte(`{"next_page":"again"}`))
		}
	}))
	first, err := c.Jobs(t.Context(), "svc", "")
	if err != nil || first.Next != "two" || len(first.Jobs) != 1 || !first.Jobs["a"].Ended() {
		t.Errorf("first page %v, %v", first, err)
	}
	second, err := c.Jobs(t.Context(), "svc", "two")
	if err != nil || second.Next != "" || len(second.Jobs) != 1 || second.Jobs["b"].Ended() {
		t.Errorf("second page %v, %v", second, err)
	}
	if _, err := c.Jobs(t.Context(), "svc", "three"); err == nil {
		t.Error("an answer without jobs was taken for an empty page")
	}
}

func TestNullBucketsAreNone(t *testing.T) {
	c := client(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(`null`)) }))
	if buckets, err := c.Buckets(t.Context()); err != nil || len(buckets) != 0 {
		t.Errorf("buckets %v, %v", buckets, err)
	}
}

func TestPasswordIsReadAnew(t *testing.T) {
	seen := make(chan string, 1)
	var file string
	c := client(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, p, _ := r.BasicAuth()
		seen <- p
		_, _ = w.Write([]byte(`{}`))
	}), func(c *manager.Config) { file = c.PasswordFile })
	for _, want := range []string{password, "rotated"} {
		if err := os.WriteFile(file, []byte(want+"\r\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := c.Info(t.Context()); err != nil {
			t.Fatal(err)
		}
		if got := <-seen; got != want {
			t.Errorf("password %q, want %q", got, want)
		}
	}
}

func TestNewRefuses(t *testing.T) {
	for _, endpoint := range []string{"", "oscar.example.org", "ftp://oscar.example.org", "https://u:secret@oscar.example.org", "http://[::1"} {
		if _, err := manager.New(manager.Config{Endpoint: endpoint}); err == nil {
			t.Errorf("endpoint %q was accepted", endpoint)
		} else if strings.Contains(err.Error(), "secret") {
			t.Errorf("the error holds a password: %v", err)
		}
	}
}

func TestCertificatesAreVerified(t *testing.T) {
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(`{}`)) }))
	defer server.Close()
	server.Config.ErrorLog = nil
	c := client(t, nil, func(c *manager.Config) { c.Endpoint, c.Transport = server.URL, nil })
	if _, err := c.Info(t.Context()); err == nil || !strings.Contains(err.Error(), "certificate") {
		t.Errorf("an unknown certificate was accepted: %v", err)
	}
}
