package services

import (
	"bytes"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/oscarfed/oscarfed/api/client"
	v1 "github.com/oscarfed/oscarfed/api/v1"
	"github.com/oscarfed/oscarfed/internal/cli/output"
)

func federation(phases ...string) *v1.Federation {
	f := &v1.Federation{}
	for i, phase := range phases {
		f.Replicas = append(f.Replicas, v1.Replica{
			ClusterID: string(rune('a' + i)), ServiceName: "s", Status: &v1.Status{Phase: phase, Reason: "Why", Message: "because\x1b[31m of\nthis"},
		})
	}
	return f
}

func TestProgressInAPipeHasALineForEachChange(t *testing.T) {
	var b bytes.Buffer
	p := newProgress(&b, false, output.Style{Width: 80})
	for _, f := range []*v1.Federation{
		federation("pending", "pending"), federation("pending", "pending"), federation("ready", "pending"), federation("ready", "ready"),
	} {
		p.show(f)
	}
	want := strings.Join([]string{
		"a/s  pending Why: because?[31m of this",
		"b/s  pending Why: because?[31m of this",
		"a/s  ready: because?[31m of this",
		"b/s  ready: because?[31m of this",
		"",
	}, "\n")
	if diff := cmp.Diff(want, b.String()); diff != "" {
		t.Fatal(diff)
	}
}

func TestProgressOnATerminalRedrawsTheBlock(t *testing.T) {
	var b bytes.Buffer
	p := newProgress(&b, true, output.Style{Width: 20})
	p.show(federation("pending", "pending"))
	p.show(federation("ready", "pending"))
	first := "a/s  pending Why: …\nb/s  pending Why: …\n"
	want := first + "\x1b[2A\x1b[J" + "a/s  ready: becaus…\nb/s  pending Why: …\n"
	if diff := cmp.Diff(want, b.String()); diff != "" {
		t.Fatal(diff)
	}
}

func TestCutCountsCharacters(t *testing.T) {
	for in, want := range map[string]string{"": "", "abc": "abc", "abcd": "ab…", "äöüß": "äö…"} {
		if got := output.Cut(in, 3); got != want {
			t.Errorf("%q: got %q, want %q", in, got, want)
		}
	}
}

type transport func(*http.Request) (*http.Response, error)

func (f transport) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// A service whose creation failed is created again. Until that is accepted its name finds the former creation.
func TestProgressIsNotThatOfAFormerCreation(t *testing.T) {
	now := `{"uid":"f0","phase":"rolled_back"}`
	api, err := client.New(client.Config{Endpoint: "http://api.test", Transport: transport(func(r *http.Request) (*http.Response, error) {
		body := now
		if id, ok := strings.CutPrefix(r.URL.Path, "/system/federations/"); ok && !strings.Contains(now, id) {
			body = `{"uid":"` + id + `","phase":"ready"}`
		}
		return &http.Response{StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(strings.NewReader(body))}, nil
	})})
	if err != nil {
		t.Fatal(err)
	}
	s := source{api: api, service: "s"}
	if f, err := s.read(t.Context()); err == nil {
		t.Errorf("shown: %s, %s", f.UID, f.Phase)
	}
	for _, now = range []string{`{"uid":"f1","phase":"creating"}`, `{"uid":"f1","phase":"rolling_back"}`, `{"uid":"f2","phase":"creating"}`} {
		if f, err := s.read(t.Context()); err != nil || f.UID != "f1" {
			t.Errorf("%s: %v, %v", now, f, err)
		}
	}
}
