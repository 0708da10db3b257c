package cli

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
)

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){
		"oscarfed": func() {
			os.Exit(Run(context.Background(), os.Args[1:], os.Stdin, os.Stdout, os.Stderr, echoCommand()))
		},
	})
}

// echoCommand stands for a command of another package.
func echoCommand() Command {
	return Command{
		Name: "echo", Help: "Say what it was given.",
		Run: func(_ context.Context, args []string, stdin io.Reader, stdout, _ io.Writer) int {
			in, err := io.ReadAll(stdin)
			if err != nil {
				return 1
			}
			fmt.Fprintf(stdout, "%q %q\n", args, in)
			return 42
		},
	}
}

// TestScripts runs the scripts of testdata/script against a fake API. What it
// answers to METHOD /some/path stands in the script's file api/METHOD-some-path,
// as it goes over the wire; to the second and later requests in
// api/METHOD-some-path.2 where there is one, and so on; .1 is for the first alone. What it was asked is in requests.
func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir: "testdata/script",
		Setup: func(env *testscript.Env) error {
			api := &fakeAPI{dir: env.WorkDir, seen: map[string]int{}}
			server := httptest.NewServer(api)
			env.Defer(server.Close)
			env.Setenv("OSCARFED_ENDPOINT", server.URL)
			env.Setenv("URL", server.URL)
			env.Setenv("HOME", env.WorkDir)
			env.Setenv("GORACE", os.Getenv("GORACE")) // which says how long a command rests before it ends
			env.Setenv("XDG_CONFIG_HOME", filepath.Join(env.WorkDir, "config"))
			return nil
		},
		Cmds: map[string]func(ts *testscript.TestScript, neg bool, args []string){"exits": exits},
	})
}

// exits runs a command and wants one exact status: exits 3 oscarfed apply ...
func exits(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exits STATUS COMMAND...")
	}
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	got := 0
	if err := ts.Exec(args[1], args[2:]...); err != nil {
		exit, ok := err.(*exec.ExitError)
		if !ok {
			ts.Fatalf("%v", err)
		}
		got = exit.ExitCode()
	}
	if got != want {
		ts.Fatalf("status %d, want %d", got, want)
	}
}

// fakeAPI answers from files.
type fakeAPI struct {
	dir  string
	mu   sync.Mutex
	seen map[string]int
}

func (f *fakeAPI) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	f.mu.Lock()
	defer f.mu.Unlock()
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	f.record(r, body)
	name := filepath.Join(f.dir, "api", r.Method+strings.ReplaceAll(r.URL.Path, "/", "-"))
	f.seen[name]++
	data, err := os.ReadFile(name)
	for n := 1; n <= min(f.seen[name], 9); n++ {
		if n == 1 && f.seen[name] > 1 {
			continue // .1 is for the first alone
		}
		if later, lerr := os.ReadFile(fmt.Sprintf("%s.%d", name, n)); lerr == nil {
			data, err = later, nil
		}
	}
	if err != nil {
		data = []byte("HTTP/1.1 404 Not Found\nContent-Type: application/problem+json\n\n" +
			`{"title":"There is nothing of this name","status":404,"code":"not_found","detail":"` + r.URL.Path + `","instance":"","request_id":"r404"}`)
	}
	answer, err := http.ReadResponse(bufio.NewReader(bytes.NewReader(data)), r)
	if err != nil {
		http.Error(w, "the script's answer cannot be read: "+err.Error(), http.StatusInternalServerError)
		return
	}
	defer answer.Body.Close()
	maps.Copy(w.Header(), answer.Header)
	w.WriteHeader(answer.StatusCode)
	_, _ = io.Copy(w, answer.Body)
}

// record writes down the request. The progress of a creation asks an unknown
// number of times: only what a creation itself sends is exact.
func (f *fakeAPI) record(r *http.Request, body []byte) {
	out, err := os.OpenFile(filepath.Join(f.dir, "requests"), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return
	}
	defer out.Close() //nolint:errcheck // the script sees what is missing
	fmt.Fprintf(out, "%s %s\n", r.Method, r.URL.RequestURI())
	for _, h := range []string{"Authorization", "Idempotency-Key", "If-Match", "Oscarfed-Plan", "Prefer"} {
		for _, v := range r.Header.Values(h) {
			fmt.Fprintf(out, "%s: %s\n", h, v)
		}
	}
	fmt.Fprintf(out, "%s\n", body)
}
