package server_test

import (
	"context"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/oscarfed/oscarfed/api/server"
	"github.com/oscarfed/oscarfed/controlplane/identity"
	"github.com/oscarfed/oscarfed/controlplane/runs"
	"github.com/oscarfed/oscarfed/test/issuer"
	"github.com/oscarfed/oscarfed/test/wire"
)

// untilItEnds opens a stream with a token of a minute, and reads it to its end.
func untilItEnds(t *testing.T, s *serving, i *issuer.Issuer, method, path string) {
	t.Helper()
	began := time.Now()
	r, err := http.NewRequestWithContext(t.Context(), method, s.url+path, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+i.Token("somebody", map[string]any{"exp": began.Add(time.Minute).Unix()}))
	resp, err := s.client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	_, err = io.Copy(io.Discard, resp.Body)
	_ = resp.Body.Close()
	took := time.Since(began)
	t.Logf("%s %s ended with %v after %s", method, path, err, took)
	if resp.StatusCode != http.StatusOK || took < 59*time.Second || took > 61*time.Second {
		t.Errorf("%s %s: %d, and it ended after %s", method, path, resp.StatusCode, took)
	}
}

// TestAStreamEndsWithItsToken: a watch, an invocation, a log.
func TestAStreamEndsWithItsToken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := wire.ForTest(t)
		i := issuer.Serve(t, n.Host("issuer").MustListen(t), "")
		schemes := bearers(t, i, n.Host("api").Transport(nil))
		src := newSource()
		f := src.fake()
		f.before = func(ctx context.Context) {
			f.run = func(req runs.Request) (*runs.Answer, error) {
				from, to := io.Pipe()
				context.AfterFunc(ctx, func() { _ = to.CloseWithError(context.Cause(ctx)) })
				return answering(200, nil, from, -1)(req)
			}
		}
		s := serveOn(t, n, server.ServeConfig{Handler: newServer(t, f, func(cfg *server.Config) { cfg.Authenticator = schemes }).Handler()})
		untilItEnds(t, s, i, "GET", "/system/replicas/a?watch=true")
		untilItEnds(t, s, i, "POST", "/run/a")
		untilItEnds(t, s, i, "GET", "/system/logs/a/j")
	})
}

// TestAWatchOfARevokedTokenEnds, and goes on while the state of the token cannot be read.
func TestAWatchOfARevokedTokenEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var state atomic.Value
		state.Store("good")
		s := newSource()
		handler := newServer(t, s.fake(), func(cfg *server.Config) {
			cfg.Authenticator = authenticator(func(*http.Request) (identity.Caller, error) {
				switch state.Load() {
				case "away":
					return identity.Caller{}, io.ErrUnexpectedEOF
				case "revoked":
					return identity.Caller{}, identity.ErrUnauthenticated
				}
				return identity.Caller{Subject: "ann"}, nil
			})
		}).Handler()
		c := watchIn(t, handler, "/system/replicas/a?watch=true")
		for _, now := range []string{"good", "away"} {
			state.Store(now)
			<-time.After(5 * time.Minute)
			synctest.Wait()
			if c.ended() {
				t.Fatalf("the watch ended while the token was %s", now)
			}
		}
		state.Store("revoked")
		<-time.After(2 * time.Minute)
		synctest.Wait()
		if !c.ended() {
			t.Error("the watch goes on")
		}
		if text := c.body.String(); strings.Contains(text, "event: end") {
			t.Errorf("its client is not to resume: %s", text)
		}
	})
}
