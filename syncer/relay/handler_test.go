package relay

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	v1 "github.com/oscarfed/oscarfed/api/v1"
)

// fakeSite has one service, and notes what reaches OSCAR.
type fakeSite struct {
	err    error
	answer func(Outgoing) (*http.Response, error)
	sent   []string
	// silent says that nothing is noted: it is used by several at once.
	silent bool
}

func (*fakeSite) Cluster() (id, uid string)               { return "c", "u" }
func (*fakeSite) OpenProof(sealed string) (string, error) { return sealed, nil }
func (*fakeSite) Invokes(service, uid, token string) bool {
	return service == "s" && uid == "life" && token == "t"
}

// Vote is no for what is named so, and cannot be told of others.
func (f *fakeSite) Vote(_ context.Context, q Question) (Vote, error) {
	f.sent = append(f.sent, fmt.Sprintf("vote %s of %s as %q", q.Service, q.Owner, q.Token))
	if q.Service != "s" {
		return Vote{}, errors.New("the cluster is paused")
	}
	return Vote{Reason: "NameTaken", Message: "taken", Delay: 7 * time.Second}, f.err
}

func (f *fakeSite) Ours(_ context.Context, service, uid string) error {
	if f.err == nil && (service != "s" || uid != "life") {
		return ErrNotOurs
	}
	return f.err
}

func (f *fakeSite) Send(_ context.Context, out Outgoing) (*http.Response, error) {
	if f.silent {
		return f.answer(out)
	}
	f.sent = append(f.sent, fmt.Sprintf("%s /%s?%s %s", out.Method, strings.Join(out.Path, "/"), out.Query.Encode(), out.Token))
	if f.answer != nil {
		return f.answer(out)
	}
	return &http.Response{StatusCode: 200, Header: http.Header{"Content-Type": {"text/plain"}, "Set-Cookie": {"a=b"}}, ContentLength: 2, Body: io.NopCloser(strings.NewReader("ok"))}, nil
}

func ask(site *fakeSite, limits Limits, method, path string, header http.Header, body io.Reader) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, "http://relay/", body)
	r.URL, _ = url.Parse("http://relay" + path)
	if header != nil {
		r.Header = header
	}
	w := httptest.NewRecorder()
	newHandler(site, limits.withDefaults(), func(string, string) {}).ServeHTTP(w, r)
	return w
}

func token(t string) http.Header { return http.Header{v1.RelayServiceTokenHeader: {t}} }

// The control plane may be anybody's: what is not on the list, or not of a service that
// stands here as ours, reaches no OSCAR.
func TestAHostileControlPlaneGetsNothingElse(t *testing.T) {
	for _, c := range []struct{ method, path, tok string }{
		{"GET", "/", ""}, {"GET", "/system/config", ""}, {"GET", "/system/services", ""}, {"PUT", "/system/services", ""},
		{"DELETE", "/system/services/s", ""}, {"GET", "/system/logs/s", ""}, {"POST", "/job/s", "t"}, {"POST", "/run/s", "t"},
		{"GET", "/services/s/life", ""}, {"PUT", "/services/s/life/jobs", ""}, {"POST", "/services/s/life/jobs", ""},
		{"HEAD", "/services/s/life/jobs", ""}, {"CONNECT", "/services/s/life/run", "t"}, {"GET", "/services/s/life/run", "t"},
		{"GET", "/services/s/other/jobs", ""}, {"GET", "/services/x/life/jobs", ""}, {"DELETE", "/services/x/life/jobs/j", ""},
		{"GET", "/services/s/life/jobs/j/../../../../config", ""}, {"GET", "/services/s/life/jobs/..%2f..%2fconfig", ""},
		{"GET", "/services/s/life/jobs/a,b", ""}, {"GET", "/services/s/life/jobs/a%3Db", ""}, {"GET", "/services/s/life/jobs/%00", ""},
		{"GET", "/services/s/life/jobs/..", ""}, {"GET", "/services/s%2f..%2fx/life/jobs", ""}, {"GET", "/services//life/jobs", ""},
		{"GET", "/services/s/life/jobs?page=a%0ab", ""}, {"GET", "/services/s/life/jobs?page=" + strings.Repeat("x", 5000), ""},
		{"POST", "/services/s/life/run", ""}, {"POST", "/services/s/life/run", "other"}, {"POST", "/services/s/other/run", "t"}, {"POST", "/services/x/life/run", "t"},
		{"GET", "/services/s/life/restart", ""}, {"POST", "/services/s/other/restart", "t"}, {"POST", "/services/x/life/restart", "t"}, {"POST", "/services/s/life/stop", "t"},
		{"GET", "/votes/s", "t"}, {"PUT", "/votes/s", "t"}, {"POST", "/votes/", "t"}, {"POST", "/votes/s", "t"}, {"POST", "/votes/s/x", "t"}, {"POST", "/votes/..%2fs", "t"},
		{"GET", "/config", "t"}, {"POST", "/config", "t"}, {"PUT", "/config", "t"}, {"GET", "/config/", "t"}, {"GET", "/config/x", "t"},
	} {
		site := &fakeSite{}
		w := ask(site, Limits{}, c.method, c.path, token(c.tok), http.NoBody)
		if len(site.sent) > 0 || w.Code < 300 {
			t.Errorf("%s %s: %d, and OSCAR was asked %v", c.method, c.path, w.Code, site.sent)
		}
	}
}

func TestWhatIsOnTheListIsPassedOn(t *testing.T) {
	for _, c := range []struct{ method, path, want string }{
		{"GET", "/services/s/life/jobs", "GET /system/logs/s? "},
		{"GET", "/services/s/life/jobs?page=abc&all=true&x=y", "GET /system/logs/s?page=abc "},
		{"DELETE", "/services/s/life/jobs?page=abc&all=true", "DELETE /system/logs/s?all=true "},
		{"DELETE", "/services/s/life/jobs?all=1", "DELETE /system/logs/s? "},
		{"GET", "/services/s/life/jobs/s-1.x?timestamps=true&all=true", "GET /system/logs/s/s-1.x?timestamps=true "},
		{"DELETE", "/services/s/life/jobs/s-1?timestamps=true", "DELETE /system/logs/s/s-1? "},
		{"POST", "/services/s/life/run?x=y", "POST /run/s? t"},
		{"POST", "/services/s/life/restart?x=y", "POST /system/services/s/restart? "},
	} {
		site := &fakeSite{}
		w := ask(site, Limits{}, c.method, c.path, token("t"), http.NoBody)
		if w.Code != 200 || w.Body.String() != "ok" || len(site.sent) != 1 || site.sent[0] != c.want {
			t.Errorf("%s %s: %d, OSCAR was asked %q", c.method, c.path, w.Code, site.sent)
		}
		if h := w.Header(); h.Get("Set-Cookie") != "" || h.Get("Content-Type") != "text/plain" || h.Get("Content-Length") != "2" || h.Get(v1.RelayRefusedHeader) != "" {
			t.Errorf("%s %s: %v", c.method, c.path, h)
		}
	}
}

func TestRefusalsSayWhetherOSCARWasAsked(t *testing.T) {
	long := func() io.Reader { return strings.NewReader(strings.Repeat("x", 101)) }
	reading := func(out Outgoing) (*http.Response, error) {
		if _, err := io.Copy(io.Discard, out.Body); err != nil {
			return nil, err
		}
		return nil, errors.New("unreachable")
	}
	for name, c := range map[string]struct {
		site   *fakeSite
		body   io.Reader
		length int64
		word   string
		status int
	}{
		"a body that says that it is too large": {&fakeSite{}, long(), 101, v1.RelayTooLarge, 413},
		"a body that turns out too large":       {&fakeSite{answer: reading}, long(), -1, v1.RelayTooLarge, 413},
		"OSCAR is not reached": {&fakeSite{answer: func(Outgoing) (*http.Response, error) {
			return nil, fmt.Errorf("%w: no route", ErrNotSent)
		}}, http.NoBody, 0, v1.RelayAway, 503},
		"OSCAR does not answer": {&fakeSite{answer: func(Outgoing) (*http.Response, error) {
			return nil, context.DeadlineExceeded
		}}, http.NoBody, 0, v1.RelayBroken, 504},
		"OSCAR changes the protocol": {&fakeSite{answer: func(Outgoing) (*http.Response, error) {
			return &http.Response{StatusCode: 101, Body: http.NoBody}, nil
		}}, http.NoBody, 0, v1.RelayBroken, 504},
	} {
		r := httptest.NewRequest("POST", "http://relay/services/s/life/run", c.body)
		r.Header, r.ContentLength = token("t"), c.length
		w := httptest.NewRecorder()
		newHandler(c.site, Limits{Body: 100}.withDefaults(), func(string, string) {}).ServeHTTP(w, r)
		if w.Code != c.status || w.Header().Get(v1.RelayRefusedHeader) != c.word {
			t.Errorf("%s: %d %v", name, w.Code, w.Header())
		}
	}
	if w := ask(&fakeSite{err: errors.New("etcd is away")}, Limits{}, "GET", "/services/s/life/jobs", nil, http.NoBody); w.Code != 503 || w.Header().Get(v1.RelayRefusedHeader) != v1.RelayAway {
		t.Errorf("who cannot tell: %d %v", w.Code, w.Header())
	}
}

// More than may be at a time is refused at once, and nothing of it was sent.
func TestALimitedNumberIsUnderWay(t *testing.T) {
	hold, entered := make(chan struct{}), make(chan struct{})
	site := &fakeSite{answer: func(Outgoing) (*http.Response, error) {
		close(entered)
		<-hold
		return nil, ErrNotSent
	}}
	h := newHandler(site, Limits{Asks: 1}.withDefaults(), func(string, string) {})
	first := make(chan struct{})
	go func() {
		defer close(first)
		h.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest("GET", "http://relay/services/s/life/jobs", http.NoBody))
	}()
	<-entered
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest("GET", "http://relay/services/s/life/jobs", http.NoBody))
	if w.Code != 503 || w.Header().Get(v1.RelayRefusedHeader) != v1.RelayBusy {
		t.Errorf("the second: %d %v", w.Code, w.Header())
	}
	close(hold)
	<-first
}

// An answer that is too long, or breaks off, is not ended as if it were whole.
func TestABrokenAnswerIsNotAWholeOne(t *testing.T) {
	for name, body := range map[string]io.Reader{
		"too long":   strings.NewReader(strings.Repeat("x", 101)),
		"breaks off": io.MultiReader(strings.NewReader("x"), iotestErr{}),
	} {
		site := &fakeSite{answer: func(Outgoing) (*http.Response, error) {
			return &http.Response{StatusCode: 200, ContentLength: -1, Body: io.NopCloser(body)}, nil
		}}
		func() {
			defer func() {
				if p := recover(); p != http.ErrAbortHandler {
					t.Errorf("%s: ended with %v", name, p)
				}
			}()
			ask(site, Limits{Answer: 100}, "GET", "/services/s/life/jobs/j", nil, http.NoBody)
		}()
	}
}

type iotestErr struct{}

func (iotestErr) Read([]byte) (int, error) { return 0, errors.New("it broke off") }

// A question is answered for the administrator, or for the user whose token comes with it.
func TestWhoIsToldOfAVote(t *testing.T) {
	jwt := func(subject string) string {
		return "e30." + base64.RawURLEncoding.EncodeToString([]byte(`{"sub":"`+subject+`"}`)) + ".c2ln"
	}
	for name, c := range map[string]struct {
		path, body, token string
		status            int
		word, sent        string
	}{
		"the administrator":      {"/votes/s", `{"owner":"cluster_admin","service":{}}`, "", 200, "", `[vote s of cluster_admin as ""]`},
		"a user":                 {"/votes/s", `{"owner":"anna","service":{}}`, jwt("anna"), 200, "", `[vote s of anna as "` + jwt("anna") + `"]`},
		"of another user":        {"/votes/s", `{"owner":"anna","service":{}}`, jwt("bob"), 403, v1.RelayNotAllowed, "[]"},
		"no token":               {"/votes/s", `{"owner":"anna","service":{}}`, "anna", 403, v1.RelayNotAllowed, "[]"},
		"of nobody":              {"/votes/s", `{"service":{}}`, "", 400, v1.RelayNotAllowed, "[]"},
		"no question":            {"/votes/s", `null`, "", 400, v1.RelayNotAllowed, "[]"},
		"one that is too large":  {"/votes/s", `{"owner":"cluster_admin","service":"` + strings.Repeat("x", v1.MaxRelayQuestion) + `"}`, "", 413, v1.RelayTooLarge, "[]"},
		"no service":             {"/votes/a%20b", `{"owner":"cluster_admin","service":{}}`, "", 400, v1.RelayNotAllowed, "[]"},
		"what nobody can answer": {"/votes/x", `{"owner":"cluster_admin","service":{}}`, "", 503, v1.RelayAway, `[vote x of cluster_admin as ""]`},
	} {
		site, header := &fakeSite{}, http.Header{}
		if c.token != "" {
			header.Set(v1.RelayUserTokenHeader, c.token)
		}
		w := ask(site, Limits{}, "POST", c.path, header, strings.NewReader(c.body))
		if w.Code != c.status || w.Header().Get(v1.RelayRefusedHeader) != c.word || fmt.Sprint(site.sent) != c.sent {
			t.Errorf("%s: %d %v %s, %v", name, w.Code, w.Header(), w.Body, site.sent)
		}
		if c.status == 200 && w.Body.String() != `{"answer":"no","reason":"NameTaken","message":"taken","delay_s":7}` {
			t.Errorf("%s: %s", name, w.Body)
		}
	}
}
