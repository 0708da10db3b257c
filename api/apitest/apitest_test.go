package apitest_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/oscarfed/oscarfed/api/apitest"
)

// failures is a testing.TB that remembers instead of failing.
type failures struct {
	testing.TB
	messages []string
}

func (f *failures) Helper() {}

func (f *failures) Errorf(format string, args ...any) {
	f.messages = append(f.messages, fmt.Sprintf(format, args...))
}

type answer struct {
	method, path string
	status       int
	header       map[string]string
	body         string
}

const info = `{"version":"v4.1.2","git_commit":"x","architecture":"amd64","kubernetes_version":"","oscarfed_version":"devel","control_plane":"c","clusters":3,"alive_clusters":2}`

const problem = `{"type":"urn:oscarfed:problem:not_found","title":"There is nothing of this name","status":404,"code":"not_found","detail":"","instance":"/x","request_id":"r"}`

func TestChecks(t *testing.T) {
	plain := map[string]string{"Content-Type": "text/plain; charset=utf-8"}
	jsonType := map[string]string{"Content-Type": "application/json; charset=utf-8"}
	problemType := map[string]string{"Content-Type": "application/problem+json"}
	stream := map[string]string{"Content-Type": "text/event-stream"}
	tests := []struct {
		name string
		answer
		// fault is a part of what is reported; empty when the answer conforms.
		fault string
	}{
		{"conforms", answer{"GET", "/system/info", 200, jsonType, info}, ""},
		{"trailing slash", answer{"GET", "/system/info/", 200, jsonType, info}, ""},
		{"text", answer{"GET", "/health", 200, plain, "Ok"}, ""},
		{"may be empty", answer{"GET", "/system/services/x", 404, nil, ""}, ""},
		{"or have a body", answer{"GET", "/system/services/x", 404, problemType, problem}, ""},
		{"no body described", answer{"DELETE", "/system/services/x", 204, map[string]string{"Oscarfed-Pending": "0"}, ""}, ""},
		{"unknown path", answer{"GET", "/x", 404, plain, "404 page not found"}, ""},
		{"unknown method", answer{"PATCH", "/health", 404, plain, "404 page not found"}, ""},

		{"one more header", answer{"GET", "/health", 200, map[string]string{"Content-Type": plain["Content-Type"], "Oscarfed-Pending": "0"}, "Ok"}, "Oscarfed-Pending"},
		{"one more field", answer{"GET", "/system/info", 200, jsonType, strings.Replace(info, "{", `{"more":1,`, 1)}, "more"},
		{"one field less", answer{"GET", "/system/info", 200, jsonType, strings.Replace(info, `"git_commit":"x",`, "", 1)}, "git_commit"},
		{"another type", answer{"GET", "/system/info", 200, jsonType, strings.Replace(info, `"clusters":3`, `"clusters":"3"`, 1)}, "clusters"},
		{"another text", answer{"GET", "/health", 200, plain, "OK"}, "schema"},
		{"no JSON", answer{"GET", "/system/info", 200, jsonType, "{"}, "decode"},
		{"another status", answer{"GET", "/system/info", 206, jsonType, info}, "status is not described"},
		{"another media type", answer{"GET", "/system/info", 200, plain, info}, "Content-Type"},
		{"no media type", answer{"GET", "/system/info", 200, map[string]string{"Content-Type": ""}, info}, "Content-Type"},
		{"an empty body", answer{"GET", "/system/info", 200, jsonType, ""}, "body is empty"},
		{"a body where none is described", answer{"DELETE", "/system/services/x", 204, map[string]string{"Oscarfed-Pending": "0"}, "x"}, "none is described"},
		{"no header", answer{"DELETE", "/system/services/x", 204, nil, ""}, "Oscarfed-Pending"},
		{"a bad header", answer{"DELETE", "/system/services/x", 204, map[string]string{"Oscarfed-Pending": "some"}, ""}, "Oscarfed-Pending"},
		{"no request id", answer{"GET", "/system/info", 200, map[string]string{"Content-Type": "application/json", "X-Request-ID": ""}, info}, "X-Request-ID"},
		{"events", answer{"GET", "/system/replicas/x", 200, stream, "event: end\ndata: " + problem + "\n\n: ping\n\nevent: end\nid: 4711\ndata: " + problem + "\n\nevent: repl"}, ""},
		{"no events", answer{"GET", "/system/replicas/x", 200, stream, ""}, ""},
		{"an event that is not described", answer{"GET", "/system/replicas/x", 200, stream, "event: other\ndata: {}\n\n"}, `"other" is not described`},
		{"an event without a name", answer{"GET", "/system/replicas/x", 200, stream, "data: {}\n\n"}, "is not described"},
		{"other data", answer{"GET", "/system/replicas/x", 200, stream, "event: replicas\ndata: " + problem + "\n\n"}, "group_id"},
		{"data that is no JSON", answer{"GET", "/system/replicas/x", 200, stream, "event: end\ndata: {\n\n"}, "data"},
		{"data of two lines", answer{"GET", "/system/replicas/x", 200, stream, "event: end\ndata: {\ndata: }\n\n"}, "does not belong"},
		{"an id that is none", answer{"GET", "/system/replicas/x", 200, stream, "event: end\nid: x\ndata: {}\n\n"}, "no revision"},
		{"events where none are described", answer{"GET", "/system/info", 200, stream, "event: end\n\n"}, "none is described"},
		{"a path that is not described", answer{"GET", "/x", 200, plain, "hello"}, "not described"},
		{"a method that is not described", answer{"PUT", "/health", 405, plain, "no"}, "not described"},
	}
	checker, err := apitest.NewChecker()
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			next := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("X-Request-ID", "r")
				for name, value := range tt.header {
					w.Header().Set(name, value)
					if value == "" {
						w.Header()[http.CanonicalHeaderKey(name)] = nil
					}
				}
				w.WriteHeader(tt.status)
				if tt.body != "" && tt.status != http.StatusNoContent {
					_, _ = w.Write([]byte(tt.body))
				}
			})
			got := &failures{TB: t}
			if tt.status == http.StatusNoContent && tt.body != "" { // net/http would refuse to send it
				r := httptest.NewRequest(tt.method, tt.path, nil)
				header := http.Header{"X-Request-Id": {"r"}, "Oscarfed-Pending": {"0"}}
				if err := checker.Check(r, tt.status, header, []byte(tt.body)); err != nil {
					got.Errorf("%v", err)
				}
			} else {
				handler := checker.Handler(got, next)
				handler.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(tt.method, tt.path, nil))
			}
			switch {
			case tt.fault == "" && len(got.messages) > 0:
				t.Errorf("reported %q", got.messages)
			case tt.fault != "" && (len(got.messages) != 1 || !strings.Contains(got.messages[0], tt.fault)):
				t.Errorf("reported %q, want %q", got.messages, tt.fault)
			}
		})
	}
}

// A transport checks what another process answers, and hands it on whole.
func TestTransport(t *testing.T) {
	body := info
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("X-Request-ID", "r")
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte(body))
	}))
	defer server.Close()
	got := &failures{TB: t}
	client := &http.Client{Transport: apitest.Transport(got, server.Client().Transport)}
	fetch := func() string {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL+"/system/info", nil)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := client.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		var b strings.Builder
		if err := resp.Write(&b); err != nil {
			t.Fatal(err)
		}
		return b.String()
	}
	if answer := fetch(); !strings.Contains(answer, info) || len(got.messages) != 0 {
		t.Errorf("%s; reported %q", answer, got.messages)
	}
	body = "[]"
	if fetch(); len(got.messages) != 1 {
		t.Errorf("reported %q", got.messages)
	}
}
