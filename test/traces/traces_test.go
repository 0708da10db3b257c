package traces_test

import (
	"bytes"
	"context"
	"encoding/hex"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	"google.golang.org/protobuf/proto"

	"github.com/oscarfed/oscarfed/store"
	"github.com/oscarfed/oscarfed/store/record"
	"github.com/oscarfed/oscarfed/store/storetest"
	"github.com/oscarfed/oscarfed/test/await"
	"github.com/oscarfed/oscarfed/test/process"
)

func TestMain(m *testing.M) { os.Exit(process.Main(m)) }

const (
	// creation and job are the traces of the callers, and caller their spans.
	creation = "4bf92f3577b34da6a3ce929d0e0e4736"
	job      = "5bf92f3577b34da6a3ce929d0e0e4737"
	unwanted = "6bf92f3577b34da6a3ce929d0e0e4738"
	caller   = "00f067aa0ba902b7"
	// canary is in the definition's secrets, its script and the event.
	canary = "not-a-real-canary"
	// credential is what the collector asks for.
	credential = "Bearer not-a-real-token"
)

const body = `{"name":"traced","cluster_id":"a","image":"ghcr.io/grycap/imagemagick","cpu":"0.1","memory":"256Mi","script":"#!/bin/sh\n#` + canary + `\n",
	"environment":{"variables":{},"secrets":{"KEY":"` + canary + `"}},
	"federation":{"topology":"star","delegation":"static","group_id":"traced","members":[{"type":"oscar","cluster_id":"b","service_name":"traced"}]}}`

// span is one as it was exported.
type span struct{ trace, id, parent, name, process string }

// exported is a collector, and what it was sent.
type exported struct {
	mu    sync.Mutex
	spans []span
	raw   [][]byte
	// refused counts exports without the credential.
	refused int
}

func (e *exported) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	data, err := io.ReadAll(io.LimitReader(r.Body, 16<<20))
	var sent collector.ExportTraceServiceRequest
	if err != nil || r.URL.Path != "/below/v1/traces" || proto.Unmarshal(data, &sent) != nil {
		http.Error(w, "no traces", http.StatusBadRequest)
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if r.Header.Get("Authorization") != credential {
		e.refused++
		http.Error(w, "who is this?", http.StatusUnauthorized)
		return
	}
	e.raw = append(e.raw, data)
	for _, of := range sent.GetResourceSpans() {
		about := map[string]string{}
		for _, a := range of.GetResource().GetAttributes() {
			about[a.GetKey()] = a.GetValue().GetStringValue()
		}
		process := about["service.name"]
		if process == "oscar-syncer" {
			process += " " + about["service.instance.id"]
		}
		for _, scope := range of.GetScopeSpans() {
			for _, s := range scope.GetSpans() {
				e.spans = append(e.spans, span{
					hex.EncodeToString(s.GetTraceId()), hex.EncodeToString(s.GetSpanId()), hex.EncodeToString(s.GetParentSpanId()), s.GetName(), process,
				})
			}
		}
	}
}

// of are the spans of a trace.
func (e *exported) of(trace string) []span {
	e.mu.Lock()
	defer e.mu.Unlock()
	var out []span
	for _, s := range e.spans {
		if s.trace == trace {
			out = append(out, s)
		}
	}
	return out
}

// has waits until a trace has all these spans, each as "process: name", and checks that each is below another one.
func (e *exported) has(t *testing.T, trace string, want ...string) {
	t.Helper()
	var missing []string
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("trace %s lacks %q and has %+v", trace, missing, e.of(trace))
		}
	})
	await.Until(t, "trace "+trace+" is whole", func() bool {
		spans := e.of(trace)
		missing = slices.DeleteFunc(slices.Clone(want), func(w string) bool {
			return slices.ContainsFunc(spans, func(s span) bool { return s.process+": "+s.name == w })
		})
		below := func(s span) bool {
			return s.parent == caller || slices.ContainsFunc(spans, func(o span) bool { return o.id == s.parent })
		}
		return len(missing) == 0 && !slices.ContainsFunc(spans, func(s span) bool { return !below(s) })
	})
}

// seen are the traces that an OSCAR was told of, by method and path.
type seen struct {
	mu    sync.Mutex
	calls map[string]string
}

func (s *seen) around(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if of := r.Header.Get("traceparent"); of != "" {
			s.mu.Lock()
			s.calls[r.Method+" "+r.URL.Path] = strings.Split(of, "-")[1]
			s.mu.Unlock()
		}
		next.ServeHTTP(w, r)
	})
}

func (s *seen) told(call string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.calls[call]
}

// TestRequestsAreFollowedThroughAllProcesses: a creation and a job have one trace each, from the
// API to both OSCARs, under the id that their records carry.
func TestRequestsAreFollowedThroughAllProcesses(t *testing.T) {
	traces, oscars := &exported{}, &seen{calls: map[string]string{}}
	server := httptest.NewServer(traces)
	t.Cleanup(server.Close)
	headers := filepath.Join(t.TempDir(), "headers")
	if err := os.WriteFile(headers, []byte("Authorization: "+credential+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	etcd := process.StartMembers(t, 1, nil)
	st := storetest.Open(t, store.Config{Endpoints: etcd.Endpoints()})
	fed := process.New(t, process.Config{
		Clusters: []string{"a", "b"}, Canaries: []string{"traced"}, Store: st,
		Flags: func(string) []string {
			return []string{"--etcd-endpoints=" + strings.Join(etcd.Endpoints(), ","), "--otlp-endpoint=" + server.URL + "/below", "--otlp-headers-file=" + headers}
		},
		OSCAR: oscars.around,
	})
	if err := fed.Start(t.Context(), 1); err != nil {
		t.Fatal(err)
	}

	id := call(t, fed, "POST", "/system/services?wait=60s", body, "00-"+creation+"-"+caller+"-01", http.StatusCreated)
	if !strings.HasPrefix(id, creation+"-") {
		t.Errorf("the request's id is %q", id)
	}
	traces.has(t, creation,
		"oscar-controlplane: POST /system/services", "oscar-controlplane: etcd transaction", "oscar-controlplane: federation commit",
		"oscar-syncer a: service prepared", "oscar-syncer a: service create", "oscar-syncer a: HTTP POST", "oscar-syncer a: service ready",
		"oscar-syncer b: service prepared", "oscar-syncer b: service create", "oscar-syncer b: HTTP POST", "oscar-syncer b: service ready")
	if got := oscars.told("POST /system/services"); got != creation {
		t.Errorf("OSCAR was told of trace %q", got)
	}

	call(t, fed, "POST", "/job/traced", `{"event":"`+canary+`"}`, "00-"+job+"-"+caller+"-01", http.StatusCreated)
	traces.has(t, job, "oscar-controlplane: POST /job/{service}", "oscar-controlplane: job accept", "oscar-controlplane: job assign",
		"oscar-syncer a: job claimed", "oscar-syncer a: job post", "oscar-syncer a: HTTP POST", "oscar-syncer a: job submitted")
	kvs, _, err := st.List(t.Context(), record.JobsPrefix)
	if err != nil || len(kvs) != 1 || !bytes.Contains(kvs[0].Value, []byte(`"request_id":"`+job+"-")) {
		t.Errorf("the record of the job: %+v, %v", kvs, err)
	}

	// A caller may ask not to be traced.
	id = call(t, fed, "GET", "/system/services", "", "00-"+unwanted+"-"+caller+"-00", http.StatusOK)
	if spans := traces.of(unwanted); len(spans) > 0 || strings.HasPrefix(id, unwanted) {
		t.Errorf("request %s is traced: %+v", id, spans)
	}
	traces.mu.Lock()
	defer traces.mu.Unlock()
	for _, data := range traces.raw {
		for _, secret := range []string{canary, process.Password, "not-a-real-token"} {
			if bytes.Contains(data, []byte(secret)) {
				t.Errorf("an export has %q", secret)
			}
		}
	}
	if traces.refused > 0 {
		t.Errorf("%d exports had no credential", traces.refused)
	}
}

// call sends a request in a trace, and returns the id that it got.
func call(t *testing.T, fed *process.Federation, method, path, body, parent string, status int) string {
	t.Helper()
	req, err := http.NewRequestWithContext(context.WithoutCancel(t.Context()), method, fed.Address(process.ControlPlaneName(0))+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.SetBasicAuth(process.User, process.Password)
	req.Header.Set("Traceparent", parent)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if answer, err := io.ReadAll(resp.Body); err != nil || resp.StatusCode != status {
		t.Fatalf("%s %s: %d %s (%v)", method, path, resp.StatusCode, answer, err)
	}
	return resp.Header.Get("X-Request-ID")
}
