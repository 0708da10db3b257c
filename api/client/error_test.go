package client_test

import (
	"bufio"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/oscarfed/oscarfed/api/client"
	"github.com/oscarfed/oscarfed/api/oscar"
	v1 "github.com/oscarfed/oscarfed/api/v1"
)

// failed is the answer to a creation that failed on one cluster.
//
//go:embed testdata/failed.json
var failed string

func TestProblems(t *testing.T) {
	c := newClient(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", v1.ProblemType)
		w.WriteHeader(http.StatusFailedDependency)
		_, _ = io.WriteString(w, failed)
	})
	_, err := c.CreateService(t.Context(), parse(t, `{"name":"a"}`), client.CreateOptions{IdempotencyKey: "k"})
	e := asError(t, err)
	want := v1.Problem{
		Type: "urn:oscarfed:problem:replica_failed", Title: "The service could not be created on every cluster", Status: 424,
		Code: "replica_failed", Detail: "b/a1: create answered 500", Instance: "/system/replicas/a", RequestID: "r",
		GroupID: "a", Phase: "rolling_back", Rollback: "pending",
		Replicas: []v1.FailedReplica{{
			Type: "oscar", ClusterID: "b", ServiceName: "a1",
			Cause:    &v1.Cause{Reason: "CreateFailed", Operation: "create", Status: 500, Message: "m"},
			Rollback: v1.Rollback{State: "not_created"},
		}},
	}
	if diff := cmp.Diff(want, e.Problem); diff != "" {
		t.Error(diff)
	}
	if e.Code() != "replica_failed" || e.Err != nil || err.Error() != "POST /system/services: 424 replica_failed: b/a1: create answered 500" {
		t.Errorf("got %v", err)
	}
}

// A proxy between us and the control plane does not send problem documents.
func TestAnswersWithoutAProblem(t *testing.T) {
	for status, code := range map[int]string{
		400: v1.CodeInvalid, 401: v1.CodeUnauthenticated, 403: v1.CodeForbidden, 404: v1.CodeUnavailable, 409: v1.CodeConflict,
		408: v1.CodeUnknownOutcome, 412: v1.CodeConflict, 413: v1.CodeTooLarge, 429: v1.CodeExhausted, 500: v1.CodeUnknownOutcome, 501: v1.CodeInternal,
		502: v1.CodeUnknownOutcome, 503: v1.CodeUnknownOutcome, 504: v1.CodeUnknownOutcome, 520: v1.CodeUnknownOutcome, 418: v1.CodeInternal,
	} {
		c := newClient(t, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("X-Request-ID", "r7")
			w.Header().Set("Location", "/system/replicas/a")
			w.Header().Set("Retry-After", "30")
			w.WriteHeader(status)
			_, _ = io.WriteString(w, "  sorry\n"+strings.Repeat("x", 2000))
		})
		_, err := c.RegisterCluster(t.Context(), v1.ClusterSpec{})
		e := asError(t, err)
		if e.Code() != code || e.Problem.Status != status || e.Problem.RequestID != "r7" || e.Location != "/system/replicas/a" ||
			e.RetryAfter != 30*time.Second || !strings.HasPrefix(e.Problem.Detail, "sorry") || len(e.Problem.Detail) > 600 {
			t.Errorf("%d: %+v", status, e)
		}
	}
}

// What a proxy answers in place of its control plane says nothing of an outcome to a read, and to a change not that
// nothing was done: Envoy says 503 when the control plane took the request, and died before it answered. It is asked
// again where that is safe.
func TestAProxyWithoutAnAnswer(t *testing.T) {
	for status, tries := range map[int]int32{
		http.StatusBadGateway: client.DefaultTries, http.StatusServiceUnavailable: client.DefaultTries,
		http.StatusRequestTimeout: 1, http.StatusInternalServerError: 1, http.StatusGatewayTimeout: 1, 524: 1, // perhaps since the wait was too long for it
	} {
		t.Run(strconv.Itoa(status), func(t *testing.T) {
			t.Parallel()
			var asked atomic.Int32
			c := newClient(t, func(w http.ResponseWriter, _ *http.Request) {
				asked.Add(1)
				w.Header().Set("Content-Type", "text/html")
				w.WriteHeader(status)
			})
			_, err := c.Job(t.Context(), "j")
			if e := asError(t, err); e.Code() != v1.CodeUnavailable || asked.Swap(0) != client.DefaultTries {
				t.Errorf("a read: %v", err)
			}
			_, err = c.Plan(t.Context(), &oscar.Service{Name: "s"}, client.PlanOptions{})
			if e := asError(t, err); e.Code() != v1.CodeUnavailable || asked.Swap(0) != client.DefaultTries {
				t.Errorf("a plan: %v", err)
			}
			_, err = c.SubmitJob(t.Context(), "s", nil, client.JobOptions{IdempotencyKey: "k"})
			if e := asError(t, err); e.Code() != v1.CodeUnknownOutcome || asked.Swap(0) != client.DefaultTries {
				t.Errorf("a job: %v", err)
			}
			_, err = c.CreateService(t.Context(), &oscar.Service{Name: "s"}, client.CreateOptions{IdempotencyKey: "k"})
			if e := asError(t, err); e.Code() != v1.CodeUnknownOutcome || asked.Swap(0) != tries {
				t.Errorf("a creation: %v", err)
			}
			_, err = c.CancelJob(t.Context(), "j")
			if e := asError(t, err); e.Code() != v1.CodeUnknownOutcome || asked.Swap(0) != 1 || !strings.Contains(e.Problem.Title, "may have happened") {
				t.Errorf("an order: %v", err)
			}
		})
	}
}

// The control plane's own 503 says that nothing was done.
func TestARefusalOfTheControlPlaneIsOne(t *testing.T) {
	c := newClient(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", v1.ProblemType)
		w.WriteHeader(http.StatusServiceUnavailable)
		_, _ = io.WriteString(w, `{"code":"unavailable","title":"t","detail":"etcd does not answer; nothing was changed"}`)
	})
	_, err := c.CancelJob(t.Context(), "j")
	if e := asError(t, err); e.Code() != v1.CodeUnavailable {
		t.Errorf("got %v", err)
	}
}

// counting answers 503 to the first n requests and 200 or 204 to the others.
func counting(n int32, header ...string) (http.HandlerFunc, *atomic.Int32) {
	var count atomic.Int32
	return func(w http.ResponseWriter, r *http.Request) {
		if count.Add(1) <= n {
			for i := 0; i < len(header); i += 2 {
				w.Header().Set(header[i], header[i+1])
			}
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		w.Header().Set("Oscarfed-Pending", "0")
		if r.Method == http.MethodDelete {
			w.WriteHeader(http.StatusNoContent)
			return
		}
		_, _ = io.WriteString(w, "{}")
	}, &count
}

func TestWhatIsSentAgain(t *testing.T) {
	svc := parse(t, `{"name":"a"}`)
	tests := map[string]struct {
		call func(context.Context, *client.Client) error
		sent int32
		ok   bool
	}{
		"GET": {func(ctx context.Context, c *client.Client) error { _, err := c.Info(ctx); return err }, 3, true},
		"create with a key": {func(ctx context.Context, c *client.Client) error {
			_, err := c.CreateService(ctx, svc, client.CreateOptions{IdempotencyKey: "k"})
			return err
		}, 3, true},
		"create without a key": {func(ctx context.Context, c *client.Client) error {
			_, err := c.CreateService(ctx, svc, client.CreateOptions{})
			return err
		}, 1, false},
		"delete": {func(ctx context.Context, c *client.Client) error {
			_, err := c.DeleteService(ctx, "a", client.DeleteOptions{})
			return err
		}, 1, false},
		"register": {func(ctx context.Context, c *client.Client) error {
			_, err := c.RegisterCluster(ctx, v1.ClusterSpec{})
			return err
		}, 1, false},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			handler, count := counting(2)
			err := tt.call(t.Context(), newClient(t, handler))
			if (err == nil) != tt.ok || count.Load() != tt.sent {
				t.Errorf("sent %d times, want %d; %v", count.Load(), tt.sent, err)
			}
		})
	}
}

// An outcome is final, even when its code is that of a request which may be sent
// again.
func TestWhatIsNotSentAgain(t *testing.T) {
	aborted := strings.NewReplacer("424", "503", "replica_failed", "unavailable", "rolling_back", "aborted").Replace(failed)
	unknown := `{"code":"unknown_outcome","title":"t","detail":"the wait is over"}`
	tests := map[string]struct {
		status             int
		body, media, retry string
	}{
		"a vote that did not come":      {503, aborted, v1.ProblemType, "1"},
		"the wait is over":              {504, unknown, v1.ProblemType, ""},
		"a proxy gave up":               {504, "timeout", "text/html", ""},
		"a pause that is too long":      {503, "later", "text/plain", "3600"},
		"a rate limit with a long wait": {429, "later", "text/plain", "60"},
		"invalid":                       {400, "no", "text/plain", ""},
		"an internal error":             {500, "oops", "text/plain", ""},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			var count atomic.Int32
			c := newClient(t, func(w http.ResponseWriter, _ *http.Request) {
				count.Add(1)
				w.Header().Set("Content-Type", tt.media)
				w.Header().Set("Retry-After", tt.retry)
				w.WriteHeader(tt.status)
				_, _ = io.WriteString(w, tt.body)
			})
			_, err := c.CreateService(t.Context(), parse(t, `{"name":"a"}`), client.CreateOptions{IdempotencyKey: "k"})
			if e := asError(t, err); e.Problem.Status != tt.status || count.Load() != 1 {
				t.Errorf("sent %d times; %v", count.Load(), err)
			}
		})
	}
}

// A control plane that waits for nothing but etcd may know the outcome when it is asked again; without a key it is
// not asked.
func TestAnOutcomeThatIsNotKnownIsAskedForAgain(t *testing.T) {
	for key, sent := range map[string]int32{"k": 2, "": 1} {
		for name, call := range map[string]func(*client.Client) error{
			"job": func(c *client.Client) error {
				_, err := c.SubmitJob(t.Context(), "a", nil, client.JobOptions{IdempotencyKey: key})
				return err
			},
			"create without a wait": func(c *client.Client) error {
				_, err := c.CreateService(t.Context(), parse(t, `{"name":"a"}`), client.CreateOptions{IdempotencyKey: key, Async: true})
				return err
			},
		} {
			var count atomic.Int32
			c := newClient(t, func(w http.ResponseWriter, _ *http.Request) {
				if count.Add(1) > 1 {
					w.Header().Set("Content-Type", "application/json")
					w.Header().Set("X-Job-ID", "j")
					w.WriteHeader(http.StatusCreated)
					_, _ = io.WriteString(w, "{}")
					return
				}
				w.Header().Set("Content-Type", v1.ProblemType)
				w.WriteHeader(http.StatusGatewayTimeout)
				_, _ = io.WriteString(w, `{"code":"unknown_outcome","title":"t","detail":"etcd did not answer"}`)
			})
			if err := call(c); (err == nil) != (sent == 2) || count.Load() != sent {
				t.Errorf("%s with key %q: sent %d times; %v", name, key, count.Load(), err)
			}
		}
	}
}

func TestTriesEnd(t *testing.T) {
	handler, count := counting(1000)
	c := newClient(t, handler, func(cfg *client.Config) { cfg.Tries = 3 })
	_, err := c.Info(t.Context())
	if e := asError(t, err); e.Code() != v1.CodeUnavailable || count.Load() != 3 {
		t.Errorf("sent %d times; %v", count.Load(), err)
	}
}

func TestNobodyListens(t *testing.T) {
	c, err := client.New(client.Config{Endpoint: refusing(t), Tries: 1})
	if err != nil {
		t.Fatal(err)
	}
	_, err = c.CreateService(t.Context(), parse(t, `{"name":"a"}`), client.CreateOptions{})
	e := asError(t, err)
	if e.Code() != v1.CodeUnavailable || e.Problem.Status != 0 || e.Err == nil || !strings.Contains(err.Error(), "refused") {
		t.Errorf("got %+v", e)
	}
}

// What is no HTTP server, such as etcd, is no control plane.
func TestAnotherServerThanOneOfHTTP(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			// What is closed with something unread is reset, and the answer may be lost.
			_, _ = http.ReadRequest(bufio.NewReader(conn))
			_, _ = conn.Write([]byte("\x00\x00\x06\x04\x00\x00\x00\x00\x00\x00\x05\x00\x00\x40\x00"))
			_ = conn.Close()
		}
	}()
	c, err := client.New(client.Config{Endpoint: "http://" + listener.Addr().String(), Tries: 1})
	if err != nil {
		t.Fatal(err)
	}
	_, err = c.Clusters(t.Context())
	if e := asError(t, err); e.Problem.Title != "No control plane answers here" {
		t.Errorf("got %+v", e)
	}
}

// A connection that breaks after a change was sent leaves it in doubt; a reading
// is only not done.
func TestConnectionBreaks(t *testing.T) {
	broken := func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }
	half := func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", "100")
		_, _ = io.WriteString(w, "half")
		panic(http.ErrAbortHandler)
	}
	for name, handler := range map[string]http.HandlerFunc{"before the answer": broken, "within the answer": half} {
		t.Run(name, func(t *testing.T) {
			c := newClient(t, handler, func(cfg *client.Config) { cfg.Tries = 2 })
			_, err := c.RegisterCluster(t.Context(), v1.ClusterSpec{})
			if e := asError(t, err); e.Code() != v1.CodeUnknownOutcome || e.Err == nil {
				t.Errorf("change: %v", err)
			}
			_, err = c.Info(t.Context())
			if e := asError(t, err); e.Code() != v1.CodeUnavailable {
				t.Errorf("reading: %v", err)
			}
		})
	}
}

// The same key asks for the same outcome after an answer was lost.
func TestLostAnswerIsAskedForAgain(t *testing.T) {
	var keys []string
	c := newClient(t, func(w http.ResponseWriter, r *http.Request) {
		keys = append(keys, r.Header.Get("Idempotency-Key"))
		if len(keys) == 1 {
			panic(http.ErrAbortHandler)
		}
		w.Header().Set("Idempotent-Replayed", "true")
		w.WriteHeader(http.StatusCreated)
		_, _ = io.WriteString(w, "{}")
	})
	got, err := c.CreateService(t.Context(), parse(t, `{"name":"a"}`), client.CreateOptions{IdempotencyKey: "k"})
	if err != nil || !got.Replayed || fmt.Sprint(keys) != "[k k]" {
		t.Errorf("%+v, %v, keys %v", got, err, keys)
	}
}

// A creation whose answer was lost may have happened, whatever refuses it when it is sent again.
func TestARefusalAfterALostAnswerIsAnUnknownOutcome(t *testing.T) {
	for _, refusal := range []int{http.StatusServiceUnavailable, http.StatusTooManyRequests} {
		var count atomic.Int32
		c := newClient(t, func(w http.ResponseWriter, _ *http.Request) {
			if count.Add(1) == 1 {
				panic(http.ErrAbortHandler)
			}
			w.Header().Set("Retry-After", "60") // longer than it waits
			w.WriteHeader(refusal)
		})
		_, err := c.CreateService(t.Context(), parse(t, `{"name":"a"}`), client.CreateOptions{IdempotencyKey: "k"})
		if e := asError(t, err); e.Code() != v1.CodeUnknownOutcome || count.Load() != 2 {
			t.Errorf("%d after a lost answer: %v, after %d tries", refusal, err, count.Load())
		}
	}
}

// So it is when the caller is not let in any more when it is sent again: his token has expired meanwhile. After a plain
// refusal the command would be run again with a new login, and its job made twice.
func TestAnExpiredLoginAfterALostAnswerIsAnUnknownOutcome(t *testing.T) {
	for name, token := range map[string]func(try int32) (string, error){
		"refused": func(int32) (string, error) { return "t", nil },
		"not renewed": func(try int32) (string, error) {
			return "t", map[bool]error{true: errors.New("the login is over")}[try > 0]
		},
		"issuer away": func(try int32) (string, error) { return "t", map[bool]error{true: away{}}[try > 0] },
	} {
		var count atomic.Int32
		c := newClient(t, func(w http.ResponseWriter, _ *http.Request) {
			if count.Add(1) == 1 {
				panic(http.ErrAbortHandler)
			}
			w.Header().Set("Content-Type", v1.ProblemType)
			w.WriteHeader(http.StatusUnauthorized)
			_, _ = io.WriteString(w, `{"code":"unauthenticated","title":"t","detail":"d"}`)
		}, func(cfg *client.Config) {
			cfg.User, cfg.Password = "", ""
			cfg.TokenOf = func(context.Context, string) (string, error) { return token(count.Load()) }
		})
		_, err := c.SubmitJob(t.Context(), "a", nil, client.JobOptions{IdempotencyKey: "k"})
		if e := asError(t, err); e.Code() != v1.CodeUnknownOutcome {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Each try has a deadline of its own; the caller's is another matter.
func TestDeadlines(t *testing.T) {
	c := newClient(t, func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }, func(cfg *client.Config) { cfg.Timeout, cfg.Tries = time.Millisecond, 1 })
	_, err := c.Info(t.Context())
	if e := asError(t, err); e.Code() != v1.CodeUnavailable || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	c = newClient(t, func(_ http.ResponseWriter, r *http.Request) {
		see(t, r) // only after the body does the server notice that its client is gone
		cancel()
		<-r.Context().Done()
	})
	_, err = c.CreateService(ctx, parse(t, `{"name":"a"}`), client.CreateOptions{IdempotencyKey: "k"})
	if _, ok := errors.AsType[*client.Error](err); ok || !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}

// A change is sent once: what became of it is not known when its answer is lost,
// and it may not be made twice.
func TestAChangeIsSentOnce(t *testing.T) {
	handler, count := counting(1000)
	c := newClient(t, handler)
	_, err := c.RemoveAllReplicas(t.Context(), "a", client.ChangeOptions{})
	if e := asError(t, err); e.Code() != v1.CodeUnknownOutcome || count.Load() != 1 {
		t.Errorf("sent %d times; %v", count.Load(), err)
	}
}

// TestAnAnswerWithoutWhatItSaysIsNoSuccess: a job that nobody had accepted was one without an id, and null for a
// service of a list was followed.
func TestAnAnswerWithoutWhatItSaysIsNoSuccess(t *testing.T) {
	for body, do := range map[string]func(*client.Client) error{
		"hello": func(c *client.Client) error {
			_, err := c.SubmitJob(t.Context(), "s", nil, client.JobOptions{})
			return err
		},
		"null":   func(c *client.Client) error { _, err := c.Replicas(t.Context(), "s", ""); return err },
		"[null]": func(c *client.Client) error { _, err := c.Services(t.Context()); return err },
	} {
		c := newClient(t, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			_, _ = io.WriteString(w, body)
		})
		if err := do(c); err == nil {
			t.Errorf("%s: no error", body)
		}
	}
}
