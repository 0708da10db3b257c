package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	v1 "github.com/oscarfed/oscarfed/api/v1"
	"github.com/oscarfed/oscarfed/internal/cli/exit"
	"github.com/oscarfed/oscarfed/internal/cli/output"
)

// TestInterruptedApplySaysThatTheWorkGoesOn ends the context while the API is
// still at work on the creation.
func TestInterruptedApplySaysThatTheWorkGoesOn(t *testing.T) {
	defer goleak.VerifyNone(t)
	ctx, interrupt := context.WithCancelCause(t.Context())
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodPost {
			w.WriteHeader(http.StatusNotFound)
			return
		}
		_, _ = io.Copy(io.Discard, r.Body)
		interrupt(errors.New("somebody pressed a key"))
		<-r.Context().Done()
	}))
	defer server.Close()
	file := filepath.Join(t.TempDir(), "fdl.yaml")
	if err := os.WriteFile(file, []byte("functions: {oscar: [{name: aaa, image: i}]}"), 0o600); err != nil {
		t.Fatal(err)
	}
	var stdout, stderr bytes.Buffer
	status := Run(ctx, []string{"--endpoint", server.URL, "apply", "-f", file}, strings.NewReader(""), &stdout, &stderr)
	if status != exit.InProgress {
		t.Fatalf("status %d, want %d: %s", status, exit.InProgress, &stderr)
	}
	for _, want := range []string{"somebody pressed a key", "goes on"} {
		if !strings.Contains(stderr.String(), want) {
			t.Errorf("no %q in %q", want, &stderr)
		}
	}
}

// An apply that is interrupted while it changes a service says which ones it has not tried, and what went wrong before.
func TestAnInterruptedApplyNamesWhatItDidNotTry(t *testing.T) {
	defer goleak.VerifyNone(t)
	for after, want := range map[string][]string{
		"none": {"refused aaa", "refused bbb", "refused ccc", "3 services of 3 could not be changed; what else the file has is applied"},
		"bbb":  {"refused aaa", "not tried: 1 service after bbb", "goes on"},
	} {
		ctx, interrupt := context.WithCancelCause(t.Context())
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			body, _ := io.ReadAll(r.Body)
			w.Header().Set("Content-Type", v1.ProblemType)
			if r.URL.Path == "/system/plans" {
				w.Header().Set("Content-Type", "application/json")
				_, _ = io.WriteString(w, `{"action":"update","replicas":[]}`)
				return
			}
			if r.Method != http.MethodPost {
				w.WriteHeader(http.StatusNotFound)
				_, _ = io.WriteString(w, `{"code":"not_found"}`)
				return
			}
			_, name, _ := strings.Cut(string(body), `"name":"`)
			if name, _, _ = strings.Cut(name, `"`); name == after {
				interrupt(errors.New("somebody pressed a key"))
				<-r.Context().Done()
				return
			}
			w.WriteHeader(http.StatusForbidden)
			_, _ = io.WriteString(w, `{"code":"forbidden","title":"refused `+name+`"}`)
		}))
		file := filepath.Join(t.TempDir(), "fdl.yaml")
		text := "functions: {oscar: [{name: aaa, image: i}, {name: bbb, image: i}, {name: ccc, image: i}]}"
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		var stdout, stderr bytes.Buffer
		status := Run(ctx, []string{"--endpoint", server.URL, "apply", "-f", file}, strings.NewReader(""), &stdout, &stderr)
		server.Close()
		if interrupted := after != "none"; (status == exit.InProgress) != interrupted || strings.Contains(stderr.String(), "could not be changed") == interrupted {
			t.Errorf("interrupted at %s: status %d: %s", after, status, &stderr)
		}
		for _, words := range want {
			if !strings.Contains(stderr.String(), words) {
				t.Errorf("interrupted at %s: no %q in %s", after, words, &stderr)
			}
		}
		interrupt(nil)
	}
}

// TestLostAnswerIsUnknown cuts the connection after a creation was received.
func TestLostAnswerIsUnknown(t *testing.T) {
	defer goleak.VerifyNone(t)
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		panic(http.ErrAbortHandler)
	}))
	defer server.Close()
	file := filepath.Join(t.TempDir(), "fdl.yaml")
	if err := os.WriteFile(file, []byte("functions: {oscar: [{name: aaa, image: i}]}"), 0o600); err != nil {
		t.Fatal(err)
	}
	var stdout, stderr bytes.Buffer
	status := Run(t.Context(), []string{"--endpoint", server.URL, "apply", "-f", file}, strings.NewReader(""), &stdout, &stderr)
	if status != exit.InProgress || !strings.Contains(stderr.String(), "the same again waits for the same outcome") {
		t.Fatalf("status %d, want %d, and how to ask again: %s", status, exit.InProgress, &stderr)
	}
}

// TestInterruptedWatchIsDone: a person ends a watch by an interrupt, which is no failure.
func TestInterruptedWatchIsDone(t *testing.T) {
	defer goleak.VerifyNone(t)
	ctx, interrupt := context.WithCancelCause(t.Context())
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = io.WriteString(w, "event: replicas\nid: 7\ndata: {\"group_id\":\"g\",\"phase\":\"ready\"}\n\n")
		if err := http.NewResponseController(w).Flush(); err != nil {
			t.Error(err)
		}
		<-r.Context().Done()
	}))
	defer server.Close()
	var stderr bytes.Buffer
	stdout := writerFunc(func(p []byte) (int, error) {
		interrupt(errors.New("somebody pressed a key"))
		return len(p), nil
	})
	status := Run(ctx, []string{"--endpoint", server.URL, "get", "replicas", "a", "--watch", "-o", "json"}, strings.NewReader(""), stdout, &stderr)
	if status != exit.Done || stderr.Len() != 0 {
		t.Fatalf("status %d, want %d: %s", status, exit.Done, &stderr)
	}
}

// TestAJobListThatIsWatchedPrintsEachStateOnce: a state came again with each write of the job's record.
func TestAJobListThatIsWatchedPrintsEachStateOnce(t *testing.T) {
	defer goleak.VerifyNone(t)
	ctx, interrupt := context.WithCancelCause(t.Context())
	job := func(state string, changed int) string {
		return fmt.Sprintf("event: job\nid: %d\ndata: {\"id\":\"j1\",\"state\":%q,\"changed_at\":\"2026-11-20T13:04:%02d.120Z\"}\n\n", changed, state, changed)
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = io.WriteString(w, job("queued", 1)+job("queued", 2)+job("assigned", 3)+job("assigned", 4)+job("succeeded", 5))
		if err := http.NewResponseController(w).Flush(); err != nil {
			t.Error(err)
		}
		<-r.Context().Done()
	}))
	defer server.Close()
	var lines, stderr bytes.Buffer
	stdout := until("succeeded", interrupt, &lines)
	status := Run(ctx, []string{"--endpoint", server.URL, "job", "list", "-w"}, strings.NewReader(""), stdout, &stderr)
	if status != exit.Done || strings.Count(lines.String(), "queued") != 1 || strings.Count(lines.String(), "assigned") != 1 {
		t.Fatalf("status %d: %s%s", status, &lines, &stderr)
	}
}

// until is standard output that has a person end the command when a word is shown.
func until(word string, interrupt context.CancelCauseFunc, shown *bytes.Buffer) io.Writer {
	return writerFunc(func(p []byte) (int, error) {
		if bytes.Contains(p, []byte(word)) {
			interrupt(errors.New("somebody pressed a key"))
		}
		return shown.Write(p)
	})
}

type writerFunc func(p []byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }

func TestStatusOfEveryCode(t *testing.T) {
	for code, want := range map[string]int{
		v1.CodeInvalid: 3, v1.CodeTooLarge: 3, v1.CodeUnauthenticated: 4, v1.CodeForbidden: 4, v1.CodeNotFound: 5,
		v1.CodeAlreadyExists: 6, v1.CodeConflict: 6, v1.CodeUnavailable: 7, v1.CodeUnknownOutcome: 8,
		v1.CodeFailedPrecondition: 1, v1.CodeReplicaFailed: 1, v1.CodeExhausted: 1, v1.CodeInternal: 1, "a newer one": 1,
	} {
		if got := exit.StatusOfCode(code); got != want {
			t.Errorf("%s: status %d, want %d", code, got, want)
		}
	}
}

func TestAge(t *testing.T) {
	now := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	for d, want := range map[time.Duration]string{
		-time.Second: "0s", 5 * time.Second: "5s", 119 * time.Second: "119s", 5 * time.Minute: "5m", 119 * time.Minute: "119m",
		5 * time.Hour: "5h", 47 * time.Hour: "47h", 72 * time.Hour: "3d",
	} {
		if got := output.Age(now.Add(-d), now); got != want {
			t.Errorf("%s: got %s, want %s", d, got, want)
		}
	}
	if got := output.Age(time.Time{}, now); got != "" {
		t.Errorf("no time: got %s", got)
	}
}

func TestPrintableHidesWhatATerminalObeys(t *testing.T) {
	for text, want := range map[string]string{
		"a\x1b[2Jb\nc\td\u009be": "a?[2Jb c d?e",
		"a\u202eb\u2066c\u2028d": "a?b?c?d", // what follows is shown backwards, or on another line
		"grün 灰色 می\u200cخواهم":  "grün 灰色 می\u200cخواهم",
	} {
		if got := output.Printable(text); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}
