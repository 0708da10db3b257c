package clusters

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/oscarfed/oscarfed/api/client"
	v1 "github.com/oscarfed/oscarfed/api/v1"
	"github.com/oscarfed/oscarfed/internal/cli/command"
	"github.com/oscarfed/oscarfed/internal/cli/exit"
)

type transport func(*http.Request) (*http.Response, error)

func (f transport) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// Once the login has ended the issuer is asked for no other token.
func TestTopEndsWithItsLogin(t *testing.T) {
	for name, tt := range map[string]struct {
		err    error
		status int
	}{
		"an issuer that is away": {exit.Errorf(exit.NotReachable, "away"), exit.Done}, // by an interruption
		"a login that has ended": {exit.Errorf(exit.NotAuthorised, "over"), exit.NotAuthorised},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				began, asked := time.Now(), 0
				api, err := client.New(client.Config{
					Endpoint: "http://api.test",
					TokenOf: func(context.Context, string) (string, error) {
						if time.Since(began) < time.Minute {
							return "t", nil
						}
						asked++
						return "", tt.err
					},
					Transport: transport(func(r *http.Request) (*http.Response, error) {
						body := "[]"
						if !strings.HasSuffix(r.URL.Path, "/clusters") {
							body = "{}"
						}
						return &http.Response{StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(strings.NewReader(body))}, nil
					}),
				})
				if err != nil {
					t.Fatal(err)
				}
				ctx, stop := context.WithTimeoutCause(t.Context(), time.Hour, errors.New("interrupted"))
				defer stop()
				var out, said bytes.Buffer
				c := &topCmd{Every: topEvery}
				err = c.follow(ctx, &command.App{Stdout: &out, Stderr: &said, Now: time.Now}, api, &overview{Jobs: &v1.Stats{}})
				if exit.StatusOf(err) != tt.status || tt.status == exit.NotAuthorised && asked != 1 {
					t.Errorf("%v, after %d tokens", err, asked)
				}
			})
		})
	}
}
