package jobs

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

const followedJob = "01a1fda3-fc9e-70a6-b6c0-0c2c788607cf"

// jobAPI answers what is asked of one job, by virtual time.
type jobAPI struct {
	began time.Time
	// ends is when the job ends, counted from the beginning.
	ends time.Duration
	// job and log say how such a request is answered then; nil answers it.
	job, log func(since time.Duration) *http.Response
}

func (s *jobAPI) RoundTrip(r *http.Request) (*http.Response, error) {
	since := time.Since(s.began)
	if r.URL.Path == "/system/jobs/"+followedJob {
		if s.job != nil {
			if resp := s.job(since); resp != nil {
				return resp, nil
			}
		}
		state := v1.JobRunning
		if since >= s.ends {
			state = v1.JobSucceeded
		}
		return answer(200, "application/json", `{"id":"`+followedJob+`","state":"`+state+`","place":{"cluster_id":"c","service_name":"s","job_name":"n"}}`), nil
	}
	if s.log != nil {
		if resp := s.log(since); resp != nil {
			return resp, nil
		}
	}
	text := "one\n"
	if since >= s.ends {
		text += "two\n"
	}
	return answer(200, "text/plain", text), nil
}

func answer(status int, media, body string) *http.Response {
	return &http.Response{StatusCode: status, Status: http.StatusText(status), Header: http.Header{"Content-Type": {media}}, Body: io.NopCloser(strings.NewReader(body))}
}

// proxy answers for a control plane that is away between two times.
func proxy(from, to time.Duration) func(time.Duration) *http.Response {
	return func(since time.Duration) *http.Response {
		if since >= from && since < to {
			return answer(http.StatusServiceUnavailable, "text/html", "<h1>no healthy upstream</h1>")
		}
		return nil
	}
}

// problem answers with one from then on.
func problem(from time.Duration, status int, code string) func(time.Duration) *http.Response {
	return func(since time.Duration) *http.Response {
		if since >= from {
			return answer(status, v1.ProblemType, `{"code":"`+code+`","title":"t","detail":"d"}`)
		}
		return nil
	}
}

// A log is followed through a restart of the control plane, as long as its job runs.
func TestALogIsFollowedAsLongAsItsJobRuns(t *testing.T) {
	const never = 1000 * time.Hour
	tests := map[string]struct {
		api    jobAPI
		login  error
		status int
		out    string
		// until bounds how long it follows.
		until time.Duration
	}{
		"to the end":                      {api: jobAPI{ends: time.Minute}, status: exit.Done, out: "one\ntwo\n", until: 2 * time.Minute},
		"past an outage":                  {api: jobAPI{ends: time.Hour, job: proxy(time.Minute, 40*time.Minute), log: proxy(time.Minute, 40*time.Minute)}, status: exit.Done, out: "one\ntwo\n", until: time.Hour + time.Minute},
		"past an outage in which it ends": {api: jobAPI{ends: 30 * time.Minute, job: proxy(time.Minute, time.Hour)}, status: exit.Done, out: "one\ntwo\n", until: time.Hour + time.Minute},
		"an outage with its last look":    {api: jobAPI{ends: time.Minute, log: proxy(time.Minute, time.Minute+logEvery)}, status: exit.Done, out: "one\ntwo\n", until: 2 * time.Minute},
		"nobody there":                    {api: jobAPI{ends: never, job: proxy(0, never)}, status: exit.NotReachable, until: time.Minute},
		"until it is forgotten":           {api: jobAPI{ends: never, job: problem(time.Minute, 404, v1.CodeNotFound)}, status: exit.NotFound, out: "one\n", until: 2 * time.Minute},
		"until it is not allowed":         {api: jobAPI{ends: never, log: problem(time.Minute, 403, v1.CodeForbidden)}, status: exit.NotAuthorised, out: "one\n", until: 2 * time.Minute},
		"a cluster that is gone for good": {api: jobAPI{ends: time.Minute, log: problem(30*time.Second, 503, v1.CodeUnavailable)}, status: exit.NotReachable, out: "one\n", until: 2 * time.Minute},
		"until the login ends":            {api: jobAPI{ends: never}, login: exit.Errorf(exit.NotAuthorised, "over"), status: exit.NotAuthorised, out: "one\n", until: 2 * time.Minute},
		"past an issuer that is away":     {api: jobAPI{ends: 2 * time.Minute}, login: exit.Errorf(exit.NotReachable, "away"), status: exit.Done, out: "one\ntwo\n", until: 3 * time.Minute},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				tt.api.began = time.Now()
				api, err := client.New(client.Config{Endpoint: "http://api.test", Transport: &tt.api, TokenOf: func(context.Context, string) (string, error) {
					if since := time.Since(tt.api.began); since >= time.Minute && since < 90*time.Second {
						return "t", tt.login
					}
					return "t", nil
				}})
				if err != nil {
					t.Fatal(err)
				}
				ctx, stop := context.WithTimeoutCause(t.Context(), 10*time.Hour, errors.New("it went on"))
				defer stop()
				var out, said bytes.Buffer
				log := &followed{app: &command.App{Stdout: &out, Stderr: &said}, api: api}
				err = log.follow(ctx, followedJob, "")
				if exit.StatusOf(err) != tt.status || out.String() != tt.out || time.Since(tt.api.began) > tt.until {
					t.Errorf("%v after %s: %q\n%s", err, time.Since(tt.api.began), out.String(), said.String())
				}
			})
		})
	}
}
