package server_test

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/oscarfed/oscarfed/api/server"
	"github.com/oscarfed/oscarfed/controlplane/fault"
	"github.com/oscarfed/oscarfed/controlplane/runs"
)

func answering(status int, header http.Header, body io.Reader, length int64) func(runs.Request) (*runs.Answer, error) {
	return func(runs.Request) (*runs.Answer, error) {
		return &runs.Answer{ClusterID: "b", Status: status, Header: header, Length: length, Body: io.NopCloser(body)}, nil
	}
}

func TestRunPassesWhatBelongsToTheBody(t *testing.T) {
	var got runs.Request
	f := &fake{run: func(req runs.Request) (*runs.Answer, error) {
		got = req
		body, err := io.ReadAll(req.Body)
		if err != nil {
			return nil, err
		}
		return answering(202, http.Header{
			"Content-Type": {"image/png"}, "Set-Cookie": {"a=b"}, "Www-Authenticate": {"Basic"}, "Ce-Id": {"1"}, "Connection": {"close"},
		}, strings.NewReader("seen "+string(body)), -1)(req)
	}}
	c := newClient(t, f)
	resp := c.do("POST", "/run/grayify?cluster_id=b", "picture", "Content-Type", "image/jpeg", "Cookie", "secret", "Ce-Type", "x", "X-Forwarded-For", "1.2.3.4", "Expect", "")
	if resp.StatusCode != 202 || bodyOf(t, resp) != "seen picture" {
		t.Errorf("answered %d", resp.StatusCode)
	}
	h := resp.Header
	if h.Get("Content-Type") != "image/png" || h.Get("Ce-Id") != "1" || h.Get("Oscarfed-Cluster") != "b" || h.Get("Set-Cookie") != "" || h.Get("WWW-Authenticate") != "" {
		t.Errorf("the answer has %v", h)
	}
	if diff := cmp.Diff(http.Header{"Content-Type": {"image/jpeg"}, "Ce-Type": {"x"}}, got.Header); diff != "" || got.ClusterID != "b" {
		t.Errorf("asked with %+v: %s", got, diff)
	}
}

func TestRunRefusesABodyThatIsTooLarge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fake{run: func(req runs.Request) (*runs.Answer, error) {
			_, err := io.Copy(io.Discard, req.Body)
			return nil, &fault.Error{Code: fault.CodeUnknownOutcome, Message: "it broke off", Cause: err}
		}}
		c := relayServer(t, f)
		send := func(length int64) int {
			t.Helper()
			req, err := http.NewRequestWithContext(t.Context(), "POST", c.url+"/run/grayify", io.LimitReader(zeros{}, 65<<20))
			if err != nil {
				t.Fatal(err)
			}
			req.SetBasicAuth(user, password)
			req.ContentLength = length
			resp, err := c.http.Do(req)
			if err != nil {
				return 413 // the server closed the connection while the client was still sending
			}
			defer resp.Body.Close()
			return resp.StatusCode
		}
		if got := send(-1); got != 413 {
			t.Errorf("without a length: %d", got)
		}
		if f.count() != 1 {
			t.Errorf("asked %d times", f.count())
		}
		if got := send(65 << 20); got != 413 {
			t.Errorf("with a length: %d", got)
		}
		if f.count() != 1 {
			t.Errorf("a body that says how long it is was asked about")
		}
	})
}

// The answer may be there before the body was read, or has come: the transport still reads the
// body then, and must not be in the way of the connection's next request.
func TestABodyThatIsStillReadWhenTheAnswerIsThere(t *testing.T) {
	for name, body := range map[string]func() (io.Reader, func()){
		"it never comes":  func() (io.Reader, func()) { r, w := io.Pipe(); return r, func() { _ = w.Close() } },
		"it was not read": func() (io.Reader, func()) { return strings.NewReader("a question"), func() {} },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ended := make(chan struct{}, 1)
				f := &fake{run: func(req runs.Request) (*runs.Answer, error) {
					go func() {
						_, _ = io.Copy(io.Discard, req.Body)
						ended <- struct{}{}
					}()
					return answering(200, nil, strings.NewReader("early"), 5)(req)
				}}
				c := relayServer(t, f)
				for range 3 {
					from, done := body()
					req, err := http.NewRequestWithContext(t.Context(), "POST", c.url+"/run/grayify", from)
					if err != nil {
						t.Fatal(err)
					}
					req.SetBasicAuth(user, password)
					resp, err := c.http.Do(req)
					if err != nil {
						t.Fatal(err)
					}
					if text, err := io.ReadAll(resp.Body); err != nil || string(text) != "early" {
						t.Errorf("%q %v", text, err)
					}
					_ = resp.Body.Close()
					<-ended // though nothing more comes
					done()
				}
			})
		})
	}
}

// The unread body of a refused invocation is not in the way of the next request.
func TestARefusedInvocationKeepsTheConnection(t *testing.T) {
	f := &fake{run: func(runs.Request) (*runs.Answer, error) {
		return nil, &fault.Error{Code: fault.CodeNotFound, Message: "there is no such service"}
	}}
	c := newClient(t, f)
	for range 20 {
		if resp := c.do("POST", "/run/grayify", "a question", "Expect", ""); resp.StatusCode != 404 || bodyOf(t, resp) != "" {
			t.Errorf("answered %d", resp.StatusCode)
		}
	}
}

// An answer that breaks off is not taken for a whole one.
func TestABrokenAnswerBreaksTheConnection(t *testing.T) {
	for name, body := range map[string]io.Reader{
		"it breaks off": io.MultiReader(strings.NewReader("half"), broken{}),
		"it is endless": zeros{},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := &fake{run: answering(200, http.Header{"Content-Type": {"text/plain"}}, body, -1)}
				c := relayServer(t, f)
				req, err := http.NewRequestWithContext(t.Context(), "GET", c.url+"/system/logs/grayify/job-1", nil)
				if err != nil {
					t.Fatal(err)
				}
				req.SetBasicAuth(user, password)
				resp, err := c.http.Do(req)
				if err != nil {
					t.Fatal(err)
				}
				defer resp.Body.Close()
				if n, err := io.Copy(io.Discard, resp.Body); err == nil {
					t.Errorf("%d bytes, and that was taken for all", n)
				}
			})
		})
	}
}

type broken struct{}

func (broken) Read([]byte) (int, error) { return 0, errors.New("it broke off") }

func TestLogs(t *testing.T) {
	f := &fake{
		jobList: &runs.JobList{
			Jobs: map[string]runs.JobInfo{"j1": {Status: "Running", Created: "2026-11-20T13:04:05Z", Started: "2026-11-20T13:04:06Z"}},
			Next: "more", Remaining: new(int64(7)), Missing: []string{"b: away\r\nX: y"},
		},
		run:     answering(200, http.Header{"Content-Type": {"text/plain; charset=utf-8"}}, strings.NewReader("line\n"), 5),
		missing: []string{"c: away"},
	}
	c := newClient(t, f)
	resp := c.do("GET", "/system/logs/grayify?page=x&cluster_id=b", "")
	if got := resp.Header.Get("Oscarfed-Missing"); got != "b: away  X: y" {
		t.Errorf("missing is %q", got)
	}
	want(t, resp, 200, jsonType, `{"jobs":{"j1":{"status":"Running","creation_time":"2026-11-20T13:04:05Z","start_time":"2026-11-20T13:04:06Z"}},"next_page":"more","remaining_jobs":7}`)
	want(t, c.do("GET", "/system/logs/grayify/j1?timestamps=true", ""), 200, "text/plain; charset=utf-8", "line\n")
	resp = c.do("DELETE", "/system/logs/grayify?all=true", "")
	if resp.StatusCode != 204 || resp.Header.Get("Oscarfed-Missing") != "c: away" {
		t.Errorf("DELETE: %d %v", resp.StatusCode, resp.Header)
	}
	if resp := c.do("DELETE", "/system/logs/grayify/j1", ""); resp.StatusCode != 204 {
		t.Errorf("DELETE one: %d", resp.StatusCode)
	}
	var names []string
	for _, call := range f.calls {
		names = append(names, call.name)
	}
	if diff := cmp.Diff([]string{"JobLogs x", "JobLog j1 true", "DeleteJobLogs true", "DeleteJobLog j1"}, names); diff != "" {
		t.Error(diff)
	}
	// OSCAR reads a flag by strconv.ParseBool: Python's word for it deleted what had ended alone.
	for word, yes := range map[string]bool{"True": true, "1": true, "t": true, "": false, "False": false, "0": false, "yes": false} {
		f.calls = nil
		c.do("GET", "/system/logs/grayify/j1?timestamps="+word, "")
		c.do("DELETE", "/system/logs/grayify?all="+word, "")
		if len(f.calls) != 2 || f.calls[0].name != fmt.Sprint("JobLog j1 ", yes) || f.calls[1].name != fmt.Sprint("DeleteJobLogs ", yes) {
			t.Errorf("%q: %v", word, f.calls)
		}
	}
	// What clients of OSCAR expect of the Manager's own log.
	want(t, c.do("GET", "/system/logs", ""), 501, text, "The control plane has no log of an OSCAR Manager; ask the OSCAR of the cluster itself. The log of a service is at /system/logs/SERVICE")
	want(t, newClient(t, f, byHeader).do("GET", "/system/logs/", "", "X-Caller", "ann"), 403, text, "OIDC tokens are not allowed for system logs")
	f.err = &fault.Error{Code: fault.CodeNotFound, Message: "there is no log"}
	if resp := c.do("GET", "/system/logs/grayify/j1", ""); resp.StatusCode != 404 || bodyOf(t, resp) != "" {
		t.Errorf("unknown: %d", resp.StatusCode)
	}
}

// cut sends a request that run answers, beside one of its kind that began before it and lasts for as
// long as it may. It waits for end, and fails if the other one is over by then.
func cut(t *testing.T, method, path string, body io.Reader, run func(runs.Request) (*runs.Answer, error), end <-chan struct{}) {
	t.Helper()
	asleep := make(chan context.Context, 1)
	f := &fake{run: run}
	f.before = func(ctx context.Context) {
		asleep <- ctx
		<-ctx.Done()
		panic(http.ErrAbortHandler)
	}
	c := relayServer(t, f)
	request := func(body io.Reader) {
		req, err := http.NewRequestWithContext(t.Context(), method, c.url+path, body)
		if err != nil {
			t.Error(err)
			return
		}
		req.SetBasicAuth(user, password)
		if resp, err := c.http.Do(req); err == nil {
			t.Cleanup(func() { _ = resp.Body.Close() }) // it is not read
		}
	}
	go request(nil)
	other := <-asleep
	f.before = nil
	go request(body)
	<-end
	if other.Err() != nil {
		t.Errorf("%s %s had all its time", method, path)
	}
}

// closing is the body of an answer that says when it is closed.
type closing struct {
	io.Reader
	closed chan struct{}
}

func (c closing) Close() error {
	close(c.closed)
	return nil
}

// A caller who takes nothing of an answer is cut long before the answer's time is over: what the
// cluster has for him is for others.
func TestACallerWhoTakesNothingIsCut(t *testing.T) {
	for path, method := range map[string]string{"/run/grayify": "POST", "/system/logs/grayify/job-1": "GET"} {
		synctest.Test(t, func(t *testing.T) {
			from := closing{zeros{}, make(chan struct{})}
			cut(t, method, path, nil, func(runs.Request) (*runs.Answer, error) {
				return &runs.Answer{ClusterID: "b", Status: 200, Length: -1, Body: from}, nil
			}, from.closed)
		})
	}
}

// So is one who sends nothing more of a body.
func TestACallerWhoSendsNothingIsCut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		body, in := io.Pipe()
		defer in.Close() //nolint:errcheck // of a test
		go func() { _, _ = io.WriteString(in, "half a ") }()
		ended := make(chan struct{})
		cut(t, "POST", "/run/grayify", body, func(req runs.Request) (*runs.Answer, error) {
			defer close(ended)
			got, err := io.ReadAll(req.Body)
			if err == nil || string(got) != "half a " {
				t.Errorf("%q came, and %v", got, err)
			}
			return nil, &fault.Error{Code: fault.CodeUnknownOutcome, Message: "it broke off", Cause: err}
		}, ended)
	})
}

// A slow caller, and a function that is silent for minutes, have the whole time of an invocation.
func TestWhoIsSlowIsNotCut(t *testing.T) {
	donor := httptest.NewTLSServer(http.NotFoundHandler())
	donor.Close()
	for name, conf := range map[string]*tls.Config{"HTTP/1.1": nil, "HTTP/2.0": {Certificates: donor.TLS.Certificates, MinVersion: tls.VersionTLS12}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				const piece = 64 << 10
				body, in := io.Pipe()
				go func() {
					for range 10 {
						_, _ = io.WriteString(in, "x")
						<-time.After(10 * time.Second)
					}
					_ = in.Close()
				}()
				from, to := io.Pipe()
				defer from.Close() //nolint:errcheck // of a test
				go func() {
					_, _ = to.Write(make([]byte, piece))
					<-time.After(time.Minute)
					_, _ = to.Write(make([]byte, 12*piece))
					_ = to.Close()
				}()
				f := &fake{run: func(req runs.Request) (*runs.Answer, error) {
					got, err := io.ReadAll(req.Body)
					if len(got) != 10 || err != nil {
						t.Errorf("%d bytes of the body came, %v", len(got), err)
					}
					return answering(200, nil, from, -1)(req)
				}}
				s := serve(t, server.ServeConfig{Handler: newServer(t, f).Handler(), TLS: conf})
				req, err := http.NewRequestWithContext(t.Context(), "POST", s.url+"/run/grayify", body)
				if err != nil {
					t.Fatal(err)
				}
				req.SetBasicAuth(user, password)
				resp, err := s.client.Do(req)
				if err != nil {
					t.Fatal(err)
				}
				defer resp.Body.Close()
				if resp.Proto != name {
					t.Fatalf("this is %s", resp.Proto)
				}
				for range 13 {
					if n, err := io.ReadFull(resp.Body, make([]byte, piece)); err != nil {
						t.Fatalf("after %d bytes of a piece: %v", n, err)
					}
					<-time.After(10 * time.Second)
				}
				if n, err := io.Copy(io.Discard, resp.Body); n != 0 || err != nil {
					t.Errorf("the end: %d bytes, %v", n, err)
				}
			})
		})
	}
}
