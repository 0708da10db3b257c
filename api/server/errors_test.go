package server_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/oscarfed/oscarfed/api/server"
	v1 "github.com/oscarfed/oscarfed/api/v1"
	"github.com/oscarfed/oscarfed/controlplane/fault"
	"github.com/oscarfed/oscarfed/controlplane/federations"
	"github.com/oscarfed/oscarfed/controlplane/gate"
	"github.com/oscarfed/oscarfed/controlplane/view"
)

func TestCodes(t *testing.T) {
	tests := []struct {
		code   fault.Code
		status int
		// empty says that OSCAR answers without a body.
		empty bool
	}{
		{fault.CodeInvalid, 400, false},
		{fault.CodeUnauthenticated, 401, true},
		{fault.CodeForbidden, 403, false},
		{fault.CodeNotFound, 404, true},
		{fault.CodeAlreadyExists, 409, false},
		{fault.CodeConflict, 409, false},
		{fault.CodeTooLarge, 413, false},
		{fault.CodeFailedPrecondition, 422, false},
		{fault.CodeReplicaFailed, 424, false},
		{fault.CodeExhausted, 429, false},
		{fault.CodeUnavailable, 503, false},
		{fault.CodeUnknownOutcome, 504, false},
		{fault.CodeInternal, 500, false},
	}
	const message = "the value, the limit and the way out"
	for _, tt := range tests {
		t.Run(string(tt.code), func(t *testing.T) {
			c := newClient(t, &fake{err: fmt.Errorf("wrapped: %w", &fault.Error{Code: tt.code, Message: message, Cause: errors.New("cause-for-the-log")})})
			p := problemOf(t, c.do("POST", "/system/services", service, "Accept", v1.ProblemType))
			if p.Status != tt.status || p.Code != string(tt.code) || p.Type != "urn:oscarfed:problem:"+string(tt.code) || p.Title == "" {
				t.Errorf("got %+v", p)
			}
			if tt.code != fault.CodeInternal && p.Detail != message {
				t.Errorf("detail is %q", p.Detail)
			}
			resp := c.do("POST", "/system/services", service)
			body := bodyOf(t, resp)
			if resp.StatusCode != tt.status || (body == "") != tt.empty || contains(body, "cause-for-the-log") {
				t.Errorf("as text: %d %q", resp.StatusCode, body)
			}
			if !tt.empty && tt.code != fault.CodeInternal && !strings.HasPrefix(body, message) {
				t.Errorf("as text: %q", body)
			}
			retry := resp.Header.Get("Retry-After") != ""
			if want := tt.status == 429 || tt.status == 503; retry != want {
				t.Errorf("Retry-After: %v", resp.Header)
			}
		})
	}
}

func TestRetryAfterIsRoundedUp(t *testing.T) {
	for pause, want := range map[time.Duration]string{0: "1", time.Millisecond: "1", 1500 * time.Millisecond: "2", time.Minute: "60", -time.Second: "1"} {
		c := newClient(t, &fake{err: &fault.Error{Code: fault.CodeUnavailable, RetryAfter: pause}})
		if got := c.do("GET", "/system/clusters", "").Header.Get("Retry-After"); got != want {
			t.Errorf("%v: %q, want %q", pause, got, want)
		}
	}
}

func TestConflictWithIfMatch(t *testing.T) {
	c := newClient(t, &fake{err: &fault.Error{Code: fault.CodeConflict, Message: "changed meanwhile"}})
	if p := problemOf(t, c.do("DELETE", "/system/clusters/a", "", "If-Match", `"7"`)); p.Status != 412 || p.Code != "conflict" {
		t.Errorf("got %+v", p)
	}
	if p := problemOf(t, c.do("DELETE", "/system/clusters/a", "")); p.Status != 409 {
		t.Errorf("got %+v", p)
	}
}

func TestUnknownOutcomeSaysWhereToLook(t *testing.T) {
	c := newClient(t, &fake{err: &fault.Error{
		Code: fault.CodeUnknownOutcome, Message: "no outcome after 60s; the work goes on", Location: "/system/replicas/grayifyr0",
	}})
	resp := c.do("POST", "/system/services", service)
	want(t, resp, 504, text, "no outcome after 60s; the work goes on\nsee /system/replicas/grayifyr0")
	if got := resp.Header.Get("Location"); got != "/system/replicas/grayifyr0" {
		t.Errorf("Location is %q", got)
	}
	if p := problemOf(t, c.do("POST", "/system/services", service, "Accept", v1.ProblemType)); p.Instance != "/system/replicas/grayifyr0" {
		t.Errorf("got %+v", p)
	}
}

// An internal error goes to the log with its cause, and to the caller without.
func TestInternalErrors(t *testing.T) {
	secret := "etcdserver: key /oscarfed/v1/federations/x"
	tests := map[string]struct {
		err    error
		before func(context.Context)
		logged string
	}{
		"any error":       {err: errors.New(secret), logged: secret},
		"internal":        {err: &fault.Error{Code: fault.CodeInternal, Message: secret, Cause: errors.New("why")}, logged: "why"},
		"an unknown code": {err: &fault.Error{Code: "weird", Message: secret}, logged: secret},
		"a panic":         {before: func(context.Context) { panic(secret) }, logged: secret},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			var log bytes.Buffer
			c := newClient(t, &fake{err: tt.err, before: tt.before}, func(cfg *server.Config) {
				cfg.Logger = slog.New(slog.NewJSONHandler(&log, nil))
			})
			for _, accept := range []string{"", v1.ProblemType} {
				log.Reset()
				resp := c.do("GET", "/system/services", "", "Accept", accept, "X-Request-ID", "find-me")
				body := bodyOf(t, resp)
				if resp.StatusCode != 500 || contains(body, secret) || contains(body, "why") || !contains(body, "find-me") {
					t.Errorf("%d %s", resp.StatusCode, body)
				}
				if !contains(log.String(), tt.logged) || !contains(log.String(), `"level":"ERROR"`) || !contains(log.String(), "find-me") {
					t.Errorf("log: %s", log.String())
				}
			}
		})
	}
}

// A deadline is the store's fault when reading, and leaves a write in doubt.
func TestDeadlines(t *testing.T) {
	c := newClient(t, &fake{err: fmt.Errorf("txn: %w", context.DeadlineExceeded)})
	if p := problemOf(t, c.do("GET", "/system/federations", "")); p.Code != "unavailable" {
		t.Errorf("got %+v", p)
	}
	if p := problemOf(t, c.do("POST", "/system/clusters", `{"cluster_id":"a"}`)); p.Code != "unknown_outcome" {
		t.Errorf("got %+v", p)
	}
}

// Every use case gets a deadline that leaves room for what its caller waits for.
func TestUseCasesHaveDeadlines(t *testing.T) {
	tests := []struct {
		method, path string
		least, most  time.Duration
	}{
		{"GET", "/system/services", 0, server.DefaultTimeout},
		{"GET", "/system/replicas/a?wait=2m", 2 * time.Minute, 2*time.Minute + server.DefaultTimeout},
		{"POST", "/system/services", server.DefaultWait, server.DefaultWait + server.DefaultTimeout},
		{"POST", "/system/services?wait=5m", 5 * time.Minute, 5*time.Minute + server.DefaultTimeout},
		{"DELETE", "/system/services/a", 0, server.DefaultTimeout},
		{"DELETE", "/system/services/a?wait=3m", 3 * time.Minute, 3*time.Minute + server.DefaultTimeout},
		{"GET", "/health", 0, server.DefaultTimeout},
	}
	for _, tt := range tests {
		var left time.Duration
		f := &fake{
			created: &federations.CreateResult{Done: true}, deleted: &federations.DeleteResult{}, health: gate.Health{OK: true},
			replicas: func() *view.Replicas { f := example(); return &view.Replicas{Federation: f} },
			before: func(ctx context.Context) {
				if deadline, ok := ctx.Deadline(); ok {
					left = time.Until(deadline)
				}
			},
		}
		newClient(t, f).do(tt.method, tt.path, service)
		if left <= tt.least || left > tt.most {
			t.Errorf("%s %s: %v left, want more than %v and at most %v", tt.method, tt.path, left, tt.least, tt.most)
		}
	}
}

func TestAcceptNamesTheProblemType(t *testing.T) {
	tests := map[string]bool{
		"":                         false,
		"*/*":                      false,
		"application/*":            false,
		"application/json":         false,
		"text/plain":               false,
		"application/problem+json": true,
		"Application/Problem+JSON": true,
		"application/json, application/problem+json":            true,
		"application/problem+json; charset=utf-8":               true,
		"application/problem+json;q=0":                          false,
		"text/plain;q=1,application/problem+json;q=0.1":         true,
		"application/problem+json;q=0.000, application/json":    false,
		"application/problem+jsonx, xapplication/problem+json2": false,
	}
	c := newClient(t, &fake{err: &fault.Error{Code: fault.CodeForbidden, Message: "no"}})
	for accept, problem := range tests {
		resp := c.do("GET", "/system/services", "", "Accept", accept)
		if got := resp.Header.Get("Content-Type") == v1.ProblemType; got != problem {
			t.Errorf("Accept %q: Content-Type %q", accept, resp.Header.Get("Content-Type"))
		}
	}
}

// After half an answer the connection breaks, so that no client takes it for a whole one.
func TestPanicAfterTheAnswerBegan(t *testing.T) {
	f := &fake{health: gate.Health{OK: true}}
	srv := httptest.NewServer(newServer(t, f).HandlerWith(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write([]byte("half"))
		_ = http.NewResponseController(w).Flush()
		panic("late")
	}))
	srv.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
	defer srv.Close()
	resp, err := srv.Client().Get(srv.URL)
	if err == nil {
		defer resp.Body.Close()
		_, err = new(bytes.Buffer).ReadFrom(resp.Body)
	}
	if err == nil {
		t.Error("the answer looks whole")
	}
}
