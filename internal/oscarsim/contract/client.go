package contract

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
)

// maxAnswer bounds what is read of an answer, in bytes.
const maxAnswer = 64 << 20

// answer is what OSCAR said. request says to what, for messages.
type answer struct {
	request string
	status  int
	body    string
	header  http.Header
}

// do sends a request as the administrator. body is nil, text, or a definition.
func (s *suite) do(t *testing.T, method, path string, body any, change ...func(*http.Request)) answer {
	t.Helper()
	text := ""
	switch b := body.(type) {
	case nil:
	case string:
		text = b
	default:
		encoded, err := json.Marshal(b)
		if err != nil {
			t.Fatal(err)
		}
		text = string(encoded)
	}
	// The test's own context has ended in a cleanup; the client has a timeout.
	req, err := http.NewRequestWithContext(context.WithoutCancel(t.Context()), method, s.URL+path, strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	req.SetBasicAuth(s.User, s.Password)
	for _, f := range change {
		f(req)
	}
	resp, err := s.Client.Do(req)
	if err != nil {
		t.Fatalf("%s %s: %v", method, path, err)
	}
	defer func() { _ = resp.Body.Close() }()
	got, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	if err != nil {
		t.Fatalf("%s %s: %v", method, path, err)
	}
	return answer{fmt.Sprintf("%s %s %.300s", method, path, text), resp.StatusCode, strings.TrimSuffix(string(got), "\n"), resp.Header}
}

// anonymous sends no credentials, bearer a token.
func anonymous(r *http.Request) { r.Header.Del("Authorization") }

func bearer(token string) func(*http.Request) {
	return func(r *http.Request) { r.Header.Set("Authorization", "Bearer "+token) }
}

func header(name, value string) func(*http.Request) {
	return func(r *http.Request) { r.Header.Set(name, value) }
}

// want checks an answer: the exact status, and the body with ".." for any text. It reports, and says whether it holds.
func (a answer) want(t *testing.T, status int, body string) bool {
	t.Helper()
	if a.status == status && like(body, a.body) {
		return true
	}
	t.Errorf("%s\n got %d %.2000q\nwant %d %q", a.request, a.status, a.body, status, body)
	return false
}

// must is want for what later cases need.
func (a answer) must(t *testing.T, status int, body string) {
	t.Helper()
	if !a.want(t, status, body) {
		t.FailNow()
	}
}

// like reports whether got is pattern, where ".." stands for any text.
func like(pattern, got string) bool {
	first, rest, wild := strings.Cut(pattern, "..")
	if !strings.HasPrefix(got, first) {
		return false
	}
	got = got[len(first):]
	if !wild {
		return got == ""
	}
	for {
		part, more, wild := strings.Cut(rest, "..")
		if !wild {
			return strings.HasSuffix(got, part)
		}
		_, after, found := strings.Cut(got, part)
		if !found {
			return false
		}
		got, rest = after, more
	}
}

// object decodes a JSON object.
func (a answer) object(t *testing.T) map[string]any {
	t.Helper()
	var v map[string]any
	if err := json.Unmarshal([]byte(a.body), &v); err != nil {
		t.Fatalf("%s answered %d %q: %v", a.request, a.status, a.body, err)
	}
	return v
}

// field returns the JSON text of a field, by its path.
func (a answer) field(t *testing.T, path ...string) string {
	t.Helper()
	raw := json.RawMessage(a.body)
	for _, name := range path {
		var fields map[string]json.RawMessage
		if err := json.Unmarshal(raw, &fields); err != nil {
			t.Fatalf("%s answered %d %q: no %v: %v", a.request, a.status, a.body, path, err)
		}
		raw = fields[name]
	}
	return string(raw)
}

// has checks the JSON text of a field.
func (a answer) has(t *testing.T, want string, path ...string) {
	t.Helper()
	if got := a.field(t, path...); !like(want, got) {
		t.Errorf("%s: %v is %s, want %s", a.request, path, got, want)
	}
}
