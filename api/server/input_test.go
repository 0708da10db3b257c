package server_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/oscarfed/oscarfed/api/server"
	v1 "github.com/oscarfed/oscarfed/api/v1"
	"github.com/oscarfed/oscarfed/controlplane/federations"
)

// Whatever is wrong with a request, the control plane is not asked.
func TestBadServices(t *testing.T) {
	tests := []struct {
		name, body string
		status     int
		path, rule string
	}{
		{"empty", "", 400, "", "type"},
		{"truncated", service[:40], 400, "", "type"},
		{"truncated string", `{"name":"a`, 400, "", "type"},
		{"array", "[" + service + "]", 400, "", "type"},
		{"null", "null", 400, "", "type"},
		{"string", `"x"`, 400, "", "type"},
		{"two values", service + service, 400, "", "type"},
		{"YAML", "name: a\nimage: b\n", 400, "", "type"},
		{"not UTF-8", "{\"name\":\"\xff\xfe\"}", 400, "", ""},
		{"deep objects", strings.Repeat(`{"federation":`, 50_000), 400, "", ""},
		{"deep arrays", `{"input":` + strings.Repeat("[", 500_000) + strings.Repeat("]", 500_000) + "}", 400, "", ""},
		{"number for a word", `{"name":"abc","image":"i","script":"s","cpu":1}`, 400, "cpu", "type"},
		{"word for a list", `{"name":"abc","image":"i","script":"s","input":"x"}`, 400, "input", "type"},
		{"list for an object", `{"name":"abc","image":"i","script":"s","federation":[]}`, 400, "federation", "type"},
		{"too large", `{"name":"` + strings.Repeat("a", server.DefaultMaxBody) + `"}`, 413, "", ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			f := &fake{}
			c := newClient(t, f)
			resp := c.do("POST", "/system/services", tt.body, "Accept", v1.ProblemType)
			p := problemOf(t, resp)
			if p.Status != tt.status || f.count() != 0 {
				t.Fatalf("answered %+v after %d calls", p, f.count())
			}
			if tt.status == 413 {
				if p.Code != "too_large" || !contains(p.Detail, "1048576 bytes") {
					t.Errorf("got %+v", p)
				}
				return
			}
			if len(p.Violations) == 0 || p.Title != "The service is not valid" {
				t.Fatalf("got %+v", p)
			}
			v := p.Violations[0]
			if tt.rule != "" && (v.Path != tt.path || v.Rule != tt.rule) || v.Message == "" {
				t.Errorf("got %+v", v)
			}
			asText := bodyOf(t, c.do("POST", "/system/services", tt.body))
			if !strings.HasPrefix(asText, "The service specification is not valid: ") || !contains(asText, v.Message) {
				t.Errorf("as text: %s", asText)
			}
		})
	}
}

// Fields of a wrong type do not hide what else is wrong.
func TestWrongTypesAndRulesInOneAnswer(t *testing.T) {
	p := problemOf(t, newClient(t, &fake{}).do("POST", "/system/services", `{"name":"Bad_Name","cpu":1}`, "Accept", v1.ProblemType))
	got := map[string]string{}
	for _, v := range p.Violations {
		got[v.Path] = v.Rule
	}
	for path, rule := range map[string]string{"cpu": "type", "name": "name", "image": "required", "script": "required"} {
		if got[path] != rule {
			t.Errorf("%s: rule %q, want %q; all: %v", path, got[path], rule, got)
		}
	}
	if want := fmt.Sprintf("%d violations", len(p.Violations)); p.Detail != want {
		t.Errorf("detail is %q, want %q", p.Detail, want)
	}
}

func TestBadParameters(t *testing.T) {
	tests := []struct {
		query, path, rule string
		headers           []string
	}{
		{"?wait=soon", "?wait", "quantity", nil},
		{"?wait=-1s", "?wait", "quantity", nil},
		{"?wait=10m1s", "?wait", "quantity", nil},
		{"?wait=9999999999999999999h", "?wait", "quantity", nil},
		{"?wait=NaN", "?wait", "quantity", nil},
		{"?deployment=maybe", "?deployment", "one_of", nil},
		{"", "Idempotency-Key", "max_length", []string{"Idempotency-Key", strings.Repeat("x", 256)}},
		{"", "Idempotency-Key", "type", []string{"Idempotency-Key", "käse"}},
		{"", "Idempotency-Key", "type", []string{"Idempotency-Key", "tab\tkey"}},
	}
	for _, tt := range tests {
		f := &fake{created: &federations.CreateResult{Done: true}}
		p := problemOf(t, newClient(t, f).do("POST", "/system/services"+tt.query, service, append(tt.headers, "Accept", v1.ProblemType)...))
		if p.Status != 400 || p.Title != "The request is not valid" || len(p.Violations) != 1 || f.count() != 0 ||
			p.Violations[0].Path != tt.path || p.Violations[0].Rule != tt.rule {
			t.Errorf("%s %v: %+v", tt.query, tt.headers, p)
		}
	}
}

func TestAllBadParametersInOneAnswer(t *testing.T) {
	c := newClient(t, &fake{})
	want(t, c.do("POST", "/system/services?wait=x&deployment=y", service, "Idempotency-Key", "ß"), 400, text,
		"The request is not valid: 3 violations\n"+
			"Idempotency-Key: the key has characters that are not printable ASCII\n"+
			"?deployment: \"y\" is unknown; use transactional or best-effort\n"+
			"?wait: \"x\" is no duration; use for example 30s")
}

// TestManyBadParametersAreAnsweredShortly: a query has room for thousands.
func TestManyBadParametersAreAnsweredShortly(t *testing.T) {
	resp := newClient(t, &fake{}).do("GET", "/system/events?"+strings.Repeat("kind=x&", 8000), "")
	if body := bodyOf(t, resp); resp.StatusCode != 400 || len(body) > 64<<10 || !strings.Contains(body, "more violations are not shown") {
		t.Errorf("answered %d, in %d bytes", resp.StatusCode, len(body))
	}
}

func TestIdempotencyKeyGivenEmptyOrTwice(t *testing.T) {
	for _, values := range [][]string{{""}, {"a", "b"}, {"a", "a"}} {
		f := &fake{created: &federations.CreateResult{Done: true}}
		r := httptest.NewRequest("POST", "/system/services", strings.NewReader(service))
		r.SetBasicAuth(user, password)
		r.Header["Idempotency-Key"] = values
		w := httptest.NewRecorder()
		newServer(t, f).Handler().ServeHTTP(w, r)
		if w.Code != 400 || f.count() != 0 {
			t.Errorf("%q: %d %s", values, w.Code, w.Body)
		}
	}
}

func TestBodyOfUnknownLength(t *testing.T) {
	f := &fake{}
	r := httptest.NewRequest("POST", "/system/clusters", io.LimitReader(zeros{}, server.DefaultMaxBody+1))
	r.ContentLength = -1
	r.SetBasicAuth(user, password)
	w := httptest.NewRecorder()
	newServer(t, f).Handler().ServeHTTP(w, r)
	if w.Code != 413 || f.count() != 0 {
		t.Errorf("%d %s", w.Code, w.Body)
	}
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { clear(p); return len(p), nil }

func TestBodyLimitIsExact(t *testing.T) {
	body := `{"cpu":1,"name":"` + strings.Repeat("a", 100-len(`{"cpu":1,"name":""}`)) + `"}`
	for limit, status := range map[int64]int{100: 400, 99: 413} {
		c := newClient(t, &fake{}, func(cfg *server.Config) { cfg.MaxBody = limit })
		if resp := c.do("POST", "/system/services", body); resp.StatusCode != status {
			t.Errorf("limit %d: %d %s", limit, resp.StatusCode, bodyOf(t, resp))
		}
	}
}

func TestBadClusters(t *testing.T) {
	tests := []struct{ method, path, body, violation string }{
		{"POST", "/system/clusters", "", ""},
		{"POST", "/system/clusters", `{"cluster_id":"a"`, ""},
		{"POST", "/system/clusters", `[]`, ""},
		{"POST", "/system/clusters", `{"cluster_id":1}`, "cluster_id"},
		{"POST", "/system/clusters", `{"labels":{"a":1}}`, "labels"},
		{"POST", "/system/clusters", `{"ssl_verify":"no"}`, "ssl_verify"},
		{"PUT", "/system/clusters/a", `{"cluster_id":"b","endpoint":"https://b"}`, "cluster_id"},
	}
	for _, tt := range tests {
		f := &fake{}
		p := problemOf(t, newClient(t, f).do(tt.method, tt.path, tt.body))
		if p.Status != 400 || p.Title != "The cluster is not valid" || len(p.Violations) != 1 || f.count() != 0 {
			t.Errorf("%s: %+v", tt.body, p)
			continue
		}
		if v := p.Violations[0]; v.Message == "" || v.Path != tt.violation {
			t.Errorf("%s: %+v", tt.body, v)
		}
	}
}

// FuzzCreate: whatever is sent, the answer is one that the description has, and
// only a readable definition reaches the control plane.
func FuzzCreate(f *testing.F) {
	f.Add(service, "", "30s", "", "")
	f.Add(`{"name":1}`, "k", "-1", "respond-async", v1.ProblemType)
	f.Add(`[[[`, "\x00", "1e9", "return=representation", "*/*;q=0")
	checker, err := description()
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, body, key, wait, prefer, accept string) {
		cp := &fake{created: &federations.CreateResult{Done: true, Federation: example()}}
		r := httptest.NewRequest("POST", "/system/services", strings.NewReader(body))
		q := r.URL.Query()
		q.Set("wait", wait)
		r.URL.RawQuery = q.Encode()
		r.SetBasicAuth(user, password)
		r.Header.Set("Idempotency-Key", key)
		r.Header.Set("Prefer", prefer)
		r.Header.Set("Accept", accept)
		w := httptest.NewRecorder()
		newServer(t, cp).Handler().ServeHTTP(w, r)
		if err := checker.Check(r, w.Code, w.Header(), w.Body.Bytes()); err != nil {
			t.Error(err)
		}
		if accepted := w.Code/100 == 2; accepted != (cp.count() == 1) || accepted && !json.Valid([]byte(body)) {
			t.Errorf("%d after %d calls for %q", w.Code, cp.count(), body)
		}
	})
}
