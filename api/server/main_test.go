package server_test

import (
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"go.uber.org/goleak"

	"github.com/oscarfed/oscarfed/api/apitest"
	"github.com/oscarfed/oscarfed/api/server"
	v1 "github.com/oscarfed/oscarfed/api/v1"
	"github.com/oscarfed/oscarfed/controlplane/identity"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// description is read once: that takes longer than all else in most tests.
var description = sync.OnceValues(apitest.NewChecker)

const (
	user     = "oscar"
	password = "correct horse"
)

// newServer makes a server over a fake control plane.
func newServer(t testing.TB, f *fake, change ...func(*server.Config)) *server.Server {
	t.Helper()
	auth, err := identity.NewBasic(user, password)
	if err != nil {
		t.Fatal(err)
	}
	cfg := server.Config{UseCases: f.useCases(), Authenticator: auth, Logger: slog.New(slog.DiscardHandler)}
	for _, c := range change {
		c(&cfg)
	}
	return server.New(cfg)
}

// useCases are those of the fake.
func (f *fake) useCases() server.UseCases {
	return server.UseCases{
		Services: f, Federations: federationCases{f}, Clusters: clusterCases{f}, Joins: f, Plans: f, Status: f, Storage: f, Differences: f, Audit: f, Usage: f, Changes: changes{f}, Events: eventCases{f}, Stats: f, Support: f, Upgrades: f,
		Tokens: f, Jobs: jobCases{f}, JobLogs: f, Streams: f, Invocations: f,
	}
}

// client sends requests of the administrator to a handler whose answers are
// checked against openapi.yaml.
type client struct {
	t       testing.TB
	handler http.Handler
}

func newClient(t testing.TB, f *fake, change ...func(*server.Config)) *client {
	t.Helper()
	checker, err := description()
	if err != nil {
		t.Fatal(err)
	}
	return &client{t, checker.Handler(t, newServer(t, f, change...).Handler())}
}

// do sends one request; headers are pairs, and a pair with an empty value takes
// the header away.
func (c *client) do(method, path, body string, headers ...string) *http.Response {
	c.t.Helper()
	return c.send(method, path, body, func(h http.Header) {
		for i := 0; i < len(headers); i += 2 {
			if headers[i+1] == "" {
				h.Del(headers[i])
			} else {
				h.Set(headers[i], headers[i+1])
			}
		}
	})
}

// send is do for headers that are not pairs.
func (c *client) send(method, path, body string, set func(http.Header)) *http.Response {
	c.t.Helper()
	var reader io.Reader
	if body != "" {
		reader = strings.NewReader(body)
	}
	r := httptest.NewRequest(method, path, reader)
	r.SetBasicAuth(user, password)
	set(r.Header)
	w := httptest.NewRecorder()
	c.handler.ServeHTTP(w, r)
	return w.Result()
}

func bodyOf(t testing.TB, resp *http.Response) string {
	t.Helper()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// want checks status, media type ("" for none) and the whole body.
func want(t testing.TB, resp *http.Response, status int, media, body string) {
	t.Helper()
	got := bodyOf(t, resp)
	if resp.StatusCode != status || resp.Header.Get("Content-Type") != media || got != body {
		t.Errorf("answered\n %d %q\n %s\nwant\n %d %q\n %s", resp.StatusCode, resp.Header.Get("Content-Type"), got, status, media, body)
	}
}

func problemOf(t testing.TB, resp *http.Response) v1.Problem {
	t.Helper()
	if got := resp.Header.Get("Content-Type"); got != v1.ProblemType {
		t.Fatalf("Content-Type is %q", got)
	}
	var p v1.Problem
	if err := json.Unmarshal([]byte(bodyOf(t, resp)), &p); err != nil {
		t.Fatal(err)
	}
	return p
}

const (
	text        = "text/plain; charset=utf-8"
	jsonType    = "application/json; charset=utf-8"
	problemType = "application/problem+json"
	// service is the smallest valid definition.
	service = `{"name":"grayifyr0","image":"ghcr.io/grycap/imagemagick","script":"#!/bin/sh\n"}`
)
