package contract

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"
)

// jobs checks which callers may start a job, how it is named, and what /system/logs says.
func (s *suite) jobs(t *testing.T) {
	n := s.name("jobs")
	s.post(t, bare(n)).must(t, 201, "")
	defer s.delete(t, n)
	var token string
	if err := json.Unmarshal([]byte(s.get(t, n).field(t, "token")), &token); err != nil {
		t.Fatal(err)
	}
	start := func(t *testing.T, body string, change ...func(*http.Request)) answer {
		t.Helper()
		return s.do(t, "POST", "/job/"+n, body, append([]func(*http.Request){bearer(token)}, change...)...)
	}
	delegated := func(id string) func(*http.Request) { return header("X-Delegated-Job-ID", id) }

	t.Run("no jobs", func(t *testing.T) {
		s.do(t, "GET", "/system/logs/"+n, nil).want(t, 200, `{"jobs":{}}`)
	})
	t.Run("who may", func(t *testing.T) {
		start(t, "e").want(t, 201, "")
		s.do(t, "POST", "/job/"+n, "e", anonymous).want(t, 401, "")
		s.do(t, "POST", "/job/"+n, "e").want(t, 401, "")
		s.do(t, "POST", "/job/"+n, "e", bearer(strings.Repeat("0", 64))).want(t, 401, "")
		s.do(t, "POST", "/job/"+n, "e", bearer("abc")).want(t, 502, "token is malformed: token contains an invalid number of segmentsError getting oidc manager for issuer ''")
		s.do(t, "POST", "/job/"+s.name("no"), "e", bearer(token)).want(t, 401, "")
		s.do(t, "POST", "/run/"+n, "e", bearer(token)).want(t, 404, "404 page not found")
	})
	t.Run("name", func(t *testing.T) {
		names := s.jobNames(t, n)
		if len(names) != 1 || !strings.HasPrefix(names[0], n+"-") || len(names[0]) != len(n)+37 {
			t.Errorf("jobs are %v, want one named %s-<uuid>", names, n)
		}
	})
	t.Run("delegated id", func(t *testing.T) {
		id := n + "-j1"
		start(t, "first", delegated(id)).want(t, 201, "")
		start(t, "second", delegated(id)).want(t, 500, `jobs.batch "`+id+`" already exists`)
		if names := s.jobNames(t, n); !slices.Contains(names, id) {
			t.Errorf("jobs are %v, want %s", names, id)
		}
		s.do(t, "DELETE", "/system/logs/"+n+"/"+id, nil).want(t, 204, "")
		s.do(t, "DELETE", "/system/logs/"+n+"/"+id, nil).want(t, 404, "")
		start(t, "second", delegated(id)).want(t, 201, "")
	})
	t.Run("names that a delegated id may have", func(t *testing.T) {
		pad := func(length int) string { return n + strings.Repeat("z", length-len(n)) }
		start(t, "e", delegated(pad(63))).want(t, 201, "")
		start(t, "e", delegated(pad(58))).want(t, 201, "")
		start(t, "e", delegated(n+".b")).want(t, 201, "")
		start(t, "e", delegated("")).want(t, 201, "")
		start(t, "e", delegated(pad(64))).want(t, 500, "..must be no more than 63 bytes..")
		for _, bad := range []string{"UPPER", "a/b", "a_b", "-a"} {
			start(t, "e", delegated(bad)).want(t, 500, `Job.batch "`+bad+`" is invalid: ..`)
		}
	})
	t.Run("logs of what is not there", func(t *testing.T) {
		s.do(t, "GET", "/system/logs/"+n+"/"+n+"-none", nil).want(t, 500, "")
	})
	t.Run("delete all", func(t *testing.T) {
		s.do(t, "DELETE", "/system/logs/"+n+"?all=true", nil).want(t, 204, "")
		s.do(t, "GET", "/system/logs/"+n, nil).want(t, 200, `{"jobs":{}}`)
	})
}

// events checks which events a Job takes.
func (s *suite) events(t *testing.T) {
	n := s.name("events")
	token := strings.Repeat("e5", 32)
	def := bare(n).with("annotations", map[string]string{workerAnnotation: "true"}).with("token", token)
	s.post(t, def).must(t, 201, "")
	defer s.delete(t, n)
	for name, c := range map[string]struct {
		event  string
		status int
		body   string
	}{
		"base64":        {strings.Repeat("QUJD", 37), 201, ""},
		"UTF-8":         {`{"name":"olé"}`, 201, ""},
		"not UTF-8":     {"a\xff\xfeb\n\t", 201, ""},
		"NUL":           {"ab\x00cd", 201, ""},
		"131065 B":      {strings.Repeat("x", 131065), 201, ""},
		"1.2 MiB":       {strings.Repeat("x", 1258291), 201, ""},
		"1.6 MiB":       {strings.Repeat("x", 1677722), 500, `Job.batch ".." is invalid: ..selector.. not auto-generated..`},
		"empty":         {"", 201, ""},
		"shell letters": {"$(id) `id`", 201, ""},
	} {
		t.Run(name, func(t *testing.T) {
			s.do(t, "POST", "/job/"+n, c.event, bearer(token)).want(t, c.status, c.body)
		})
	}
	t.Run("annotation too large", func(t *testing.T) {
		large := func(size int) definition {
			return def.with("annotations", map[string]string{workerAnnotation: "true", "example.org/large": strings.Repeat("a", size)})
		}
		s.put(t, large(300000)).want(t, 204, "")
		s.do(t, "POST", "/job/"+n, "e", bearer(token)).want(t, 500, "..Too long: may not be more than 262144 bytes..")
		s.put(t, large(255000)).want(t, 204, "")
		s.do(t, "POST", "/job/"+n, "e", bearer(token)).want(t, 201, "")
	})
}

// jobNames lists the jobs of a service.
func (s *suite) jobNames(t *testing.T, service string) []string {
	t.Helper()
	got := s.do(t, "GET", "/system/logs/"+service, nil)
	jobs, _ := got.object(t)["jobs"].(map[string]any)
	var names []string
	for name := range jobs {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}
