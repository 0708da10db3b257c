package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/oscarfed/oscarfed/internal/cli/exit"
)

// TestAResultThatCannotBeWrittenIsAFailure: a disk that is full made webhook, diff and help end with 0.
func TestAResultThatCannotBeWrittenIsAFailure(t *testing.T) {
	t.Setenv("XDG_CONFIG_HOME", t.TempDir())
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"name":"s","cluster_id":"a","token":"t","input":[{"storage_provider":"minio.default","path":"in"}]}`)
	}))
	defer server.Close()
	full := writerFunc(func([]byte) (int, error) { return 0, errors.New("no space left on device") })
	for _, args := range [][]string{{"webhook", "s", "--url", "https://site.example.org"}, {"help"}, {"explain", "name"}, {"version", "--client"}} {
		var stderr bytes.Buffer
		status := Run(t.Context(), append(args, "--endpoint", server.URL), strings.NewReader(""), full, &stderr)
		if status != exit.Failed || !strings.Contains(stderr.String(), "no space left on device") {
			t.Errorf("%v: status %d: %s", args, status, &stderr)
		}
	}
}

// TestEventsThatAreWatchedGoOn: an interruption was a failure, and so was a control plane that began anew.
func TestEventsThatAreWatchedGoOn(t *testing.T) {
	ctx, interrupt := context.WithCancelCause(t.Context())
	const event = `{"id":"%[2]d-%[1]d","revision":%[2]d,"at":"2026-11-20T13:05:0%[1]d.000Z","kind":"cluster","severity":"info","reason":"Reason%[1]d","message":"m","cluster_id":"b"}`
	asked := 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch asked++; {
		case r.URL.Path == "/system/events" && asked == 1:
			w.Header().Set("Content-Type", "application/json")
			_, _ = fmt.Fprintf(w, `{"events":[`+event+`],"since":"2026-11-20T12:00:00.000Z","revision":9,"epoch":"e"}`, 1, 9)
		case r.URL.Path == "/system/events":
			if since := r.URL.Query().Get("since"); since != "2026-11-20T11:05:01Z" {
				t.Errorf("since %s", since)
			}
			w.Header().Set("Content-Type", "application/json")
			second, first := fmt.Sprintf(event, 2, 11), fmt.Sprintf(event, 1, 9)
			_, _ = fmt.Fprintf(w, `{"events":[%s,%s],"since":"2026-11-20T13:05:01.500Z","revision":12,"epoch":"e"}`, second, first)
		case r.Header.Get("Last-Event-ID") == "9":
			w.Header().Set("Content-Type", "application/problem+json")
			w.WriteHeader(http.StatusGone)
			_, _ = io.WriteString(w, `{"title":"t","status":410,"code":"expired","detail":"d","instance":"/","request_id":"r"}`)
		default:
			if id := r.Header.Get("Last-Event-ID"); id != "12" {
				t.Errorf("goes on behind %q", id)
			}
			w.Header().Set("Content-Type", "text/event-stream")
			_, _ = fmt.Fprintf(w, "event: change\ndata: {\"revision\":13,\"kind\":\"event\",\"name\":\"x\",\"event\":"+event+"}\n\n", 3, 13)
			if err := http.NewResponseController(w).Flush(); err != nil {
				t.Error(err)
			}
			<-r.Context().Done()
		}
	}))
	defer server.Close()
	var lines, stderr bytes.Buffer
	stdout := until("Reason3", interrupt, &lines)
	status := Run(ctx, []string{"--endpoint", server.URL, "events", "-w"}, strings.NewReader(""), stdout, &stderr)
	for i := 1; i <= 3; i++ {
		if n := strings.Count(lines.String(), fmt.Sprintf("Reason%d", i)); n != 1 {
			t.Errorf("event %d is there %d times", i, n)
		}
	}
	if status != exit.Done || !strings.Contains(stderr.String(), "is not known") {
		t.Errorf("status %d: %s%s", status, &lines, &stderr)
	}
}
