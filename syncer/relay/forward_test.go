package relay

import (
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"

	v1 "github.com/oscarfed/oscarfed/api/v1"
)

// letsIn is an OSCAR that lets every user in, and answers all else with answer.
func letsIn(answer func(Outgoing) (*http.Response, error)) func(Outgoing) (*http.Response, error) {
	return func(out Outgoing) (*http.Response, error) {
		if strings.Join(out.Path, "/") == "system/info" {
			return answers(200, "{}")(out)
		}
		return answer(out)
	}
}

func user(token string) http.Header { return http.Header{v1.RelayUserTokenHeader: {token}} }

var (
	alice = jwt(`{"sub":"alice"}`)
	nice  = letsIn(answers(200, "[]"))
)

// The control plane may be anybody's: of OSCAR's own paths only those of users are reached, with
// the user's token alone, and those that lead elsewhere are not.
func TestNoOtherPathIsForwarded(t *testing.T) {
	for _, c := range []struct{ method, path string }{
		{"GET", "/user/services"}, {"POST", "/user/services"}, {"GET", "/user/config"}, {"PUT", "/user/config"}, {"GET", "/user/status"}, {"GET", "/user/logs"},
		{"GET", "/user/buckets/.."}, {"GET", "/user/buckets/%2e%2e"}, {"GET", "/user/buckets/..%2fservices"}, {"GET", "/user/buckets/a%2fb"},
		{"GET", "/user/buckets//services"}, {"GET", "/user//services"}, {"GET", "/user/buckets/../services"}, {"GET", "/user/buckets/a/../../services"},
		{"GET", "/user/buckets/a%00"}, {"GET", "/user/buckets/a%0d%0ax"}, {"GET", "/user/buckets/a%3fb"}, {"GET", "/user/buckets/" + strings.Repeat("a", 256)},
		{"PATCH", "/user/buckets"}, {"DELETE", "/user/buckets"}, {"GET", "/user/buckets/a/presign"}, {"PUT", "/user/volumes/a"}, {"DELETE", "/user/quotas/user/a"},
		{"HEAD", "/user/buckets"}, {"GET", "/user/metrics?start=%zz"}, {"GET", "/users/buckets"}, {"GET", "/buckets"}, {"GET", "/system/buckets"},
		{"GET", "/admin/buckets"}, {"DELETE", "/admin/buckets/a"}, {"PUT", "/admin/quotas/user/a"}, {"GET", "/admin/config"},
	} {
		site := &fakeSite{answer: nice}
		w := ask(site, Limits{}, c.method, c.path, user(alice), strings.NewReader("{}"))
		if len(site.sent) > 0 || w.Code < 300 {
			t.Errorf("%s %s: %d, and OSCAR was asked %v", c.method, c.path, w.Code, site.sent)
		}
	}
}

func TestWhatIsForwarded(t *testing.T) {
	for _, c := range []struct{ method, path, want string }{
		{"GET", "/user/buckets?page=1&x=y", "GET /system/buckets? "},
		{"GET", "/user/buckets/a.b-c?page=1&page=2&cluster_id=z", "GET /system/buckets/a.b-c?page=1 "},
		{"POST", "/user/buckets/a/presign", "POST /system/buckets/a/presign? "},
		{"DELETE", "/user/volumes/v?all=true", "DELETE /system/volumes/v? "},
		{"GET", "/user/quotas/user", "GET /system/quotas/user? "},
		{"GET", "/user/quotas/user/ann@egi.eu", "GET /system/quotas/user/ann@egi.eu? "},
		{"GET", "/user/metrics/breakdown?group_by=service&format=a%0ab", "GET /system/metrics/breakdown?group_by=service "},
	} {
		var got Outgoing
		site := &fakeSite{answer: letsIn(func(out Outgoing) (*http.Response, error) {
			got = out
			return &http.Response{StatusCode: 201, ContentLength: -1, Body: io.NopCloser(strings.NewReader("{}")), Header: http.Header{
				"Set-Cookie": {"a=b"}, "Location": {"/x"}, "Access-Control-Allow-Origin": {"*"}, "Content-Type": {"text/html"}, "Www-Authenticate": {"Basic"},
				v1.RelayRefusedHeader: {"not_ours"}, "Content-Security-Policy": {"script-src *"},
			}}, nil
		})}
		header := user(alice)
		for _, name := range []string{"Authorization", "Cookie", "X-Forwarded-User", "X-Delegated-Job-Id", "Content-Type", v1.RelayServiceTokenHeader} {
			header.Set(name, "smuggled")
		}
		w := ask(site, Limits{}, c.method, c.path, header, strings.NewReader(`{"a":1}`))
		if w.Code != 201 || len(site.sent) != 2 || site.sent[0] != "GET /system/info? "+alice || site.sent[1] != c.want+alice {
			t.Errorf("%s %s: %d, OSCAR was asked %q", c.method, c.path, w.Code, site.sent)
		}
		for name := range got.Header {
			if name != "Content-Type" || got.Header.Get(name) != "application/json" {
				t.Errorf("%s %s: OSCAR gets %v", c.method, c.path, got.Header)
			}
		}
		h := w.Header()
		if len(h) != 2 || h.Get("Content-Type") != "text/plain; charset=utf-8" || h.Get("Cache-Control") != "no-store" {
			t.Errorf("%s %s: passed on %v", c.method, c.path, h)
		}
	}
}

// OSCAR v4.1 carries out requests whose token it has refused: they must not reach it.
func TestAUserWhomOSCARRefusesReachesNothing(t *testing.T) {
	for name, c := range map[string]struct {
		token  string
		answer func(Outgoing) (*http.Response, error)
		status int
		word   string
		asked  int
	}{
		"refused":                  {alice, answers(401, "a text"), 401, "", 1},
		"refused, with an answer":  {alice, answers(400, `no issuer{"minio_provider":"root"}`), 401, "", 1},
		"of no group":              {alice, answers(403, "a text"), 401, "", 1},
		"OSCAR fails":              {alice, answers(500, "a text"), 503, v1.RelayAway, 1},
		"OSCAR redirects":          {alice, answers(302, "a text"), 503, v1.RelayAway, 1},
		"OSCAR is not reached":     {alice, func(Outgoing) (*http.Response, error) { return nil, errors.New("no route") }, 503, v1.RelayAway, 1},
		"no token":                 {"", nice, 403, v1.RelayNotAllowed, 0},
		"a service's token":        {strings.Repeat("a", 64), nice, 403, v1.RelayNotAllowed, 0},
		"credentials behind it":    {alice + " Basic", nice, 403, v1.RelayNotAllowed, 0},
		"a header behind it":       {alice + "\r\nAuthorization: Basic x", nice, 403, v1.RelayNotAllowed, 0},
		"a token without a person": {jwt(`{}`), nice, 403, v1.RelayNotAllowed, 0},
	} {
		site := &fakeSite{answer: c.answer}
		w := ask(site, Limits{}, "DELETE", "/user/buckets/a", user(c.token), http.NoBody)
		if w.Code != c.status || w.Header().Get(v1.RelayRefusedHeader) != c.word || len(site.sent) != c.asked {
			t.Errorf("%s: %d %v, OSCAR was asked %q", name, w.Code, w.Header(), site.sent)
		}
		if c.word == "" && w.Body.Len() > 0 {
			t.Errorf("%s: OSCAR's text is passed on: %s", name, w.Body)
		}
	}
}

// TestAHostileAnswerIsNotForwarded: it is refused with a reason, whole.
func TestAHostileAnswerIsNotForwarded(t *testing.T) {
	for name, c := range map[string]struct {
		answer func(Outgoing) (*http.Response, error)
		word   string
	}{
		"a redirect":       {answers(307, ""), v1.RelayBroken},
		"another protocol": {answers(101, ""), v1.RelayBroken},
		"too long":         {answers(200, strings.Repeat("x", v1.MaxForwardAnswer+1)), v1.RelayBroken},
		"not sent":         {func(Outgoing) (*http.Response, error) { return nil, ErrNotSent }, v1.RelayAway},
		"no answer":        {func(Outgoing) (*http.Response, error) { return nil, errors.New("reset") }, v1.RelayBroken},
		"it breaks off": {func(Outgoing) (*http.Response, error) {
			return &http.Response{StatusCode: 200, Body: io.NopCloser(iotestErr{})}, nil
		}, v1.RelayBroken},
	} {
		w := ask(&fakeSite{answer: letsIn(c.answer)}, Limits{}, "GET", "/user/buckets", user(alice), http.NoBody)
		if w.Header().Get(v1.RelayRefusedHeader) != c.word || w.Body.Len() > 200 || w.Header().Get("Location") != "" {
			t.Errorf("%s: %d %v", name, w.Code, w.Header())
		}
	}
	site := &fakeSite{answer: nice}
	if w := ask(site, Limits{}, "POST", "/user/buckets", user(alice), strings.NewReader(strings.Repeat("x", v1.MaxForwardBody+1))); w.Code != 413 || len(site.sent) > 0 {
		t.Errorf("a huge body: %d, OSCAR was asked %q", w.Code, site.sent)
	}
	site = &fakeSite{answer: letsIn(answers(401, `{"minio_provider":"root"}`))}
	if w := ask(site, Limits{}, "GET", "/user/buckets", user(alice), http.NoBody); w.Code != 401 || w.Body.Len() > 0 {
		t.Errorf("401: %d %s", w.Code, w.Body)
	}
}

// With --relay-admin the same paths, and no others, go with the cluster's credentials.
func TestTheAdministratorsRightsAreLentOnRequest(t *testing.T) {
	for path, want := range map[string]string{
		"/admin/buckets": "GET /system/buckets? ", "/admin/quotas/user/ann": "GET /system/quotas/user/ann? ",
		"/admin/config": "", "/admin/services": "", "/admin/buckets/..": "",
	} {
		site := &fakeSite{answer: nice}
		w := ask(site, Limits{Admin: true}, "GET", path, user(alice), http.NoBody)
		if got := strings.Join(site.sent, ","); got != want || (w.Code == 200) != (want != "") {
			t.Errorf("%s: %d, OSCAR was asked %q", path, w.Code, got)
		}
	}
	w := ask(&fakeSite{answer: nice}, Limits{}, "GET", "/admin/buckets", nil, http.NoBody)
	if w.Header().Get(v1.RelayRefusedHeader) != v1.RelayNotAllowed || !strings.Contains(w.Body.String(), "--relay-admin") {
		t.Errorf("without the flag: %v %s", w.Header(), w.Body)
	}
}
