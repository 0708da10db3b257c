package cli

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/zalando/go-keyring"

	v1 "github.com/oscarfed/oscarfed/api/v1"
	"github.com/oscarfed/oscarfed/internal/cli/exit"
	"github.com/oscarfed/oscarfed/internal/cli/login"
	"github.com/oscarfed/oscarfed/test/await"
	"github.com/oscarfed/oscarfed/test/issuer"
)

// site is an API whose users log in at an issuer, and a person's home.
type site struct {
	t      *testing.T
	issuer *issuer.Issuer
	api    string
	home   string
	mu     sync.Mutex
	// refuses says that the API lets nobody in.
	refuses atomic.Bool
	// interrupts says that the person interrupts the command while the API is asked who he is; interrupt does it.
	interrupts atomic.Bool
	interrupt  context.CancelFunc
	// authorizations are those that the API was sent, by path.
	authorizations map[string][]string
	// out is all that commands have printed.
	out await.Output
}

const person = "alice@science.example"

func newSite(t *testing.T) *site {
	t.Helper()
	s := &site{t: t, issuer: issuer.New(t, "/realms/science"), home: t.TempDir(), authorizations: map[string][]string{}}
	s.issuer.User(person, map[string]any{"name": "Alice"})
	s.issuer.Grant(issuer.Grants{ClientID: "cli", Rotate: true, OneSession: true})
	server := httptest.NewServer(http.HandlerFunc(s.serve))
	t.Cleanup(server.Close)
	s.api = server.URL
	for key, value := range map[string]string{
		"HOME": s.home, "XDG_CONFIG_HOME": s.home, "DISPLAY": "", "WAYLAND_DISPLAY": "", "BROWSER": "", "SSH_CONNECTION": "",
		"DBUS_SESSION_BUS_ADDRESS": "", "XDG_RUNTIME_DIR": "",
	} {
		t.Setenv(key, value)
	}
	return s
}

func (s *site) serve(w http.ResponseWriter, r *http.Request) {
	given := r.Header.Get("Authorization")
	s.mu.Lock()
	s.authorizations[r.URL.Path] = append(s.authorizations[r.URL.Path], given)
	s.mu.Unlock()
	w.Header().Set("Content-Type", "application/json")
	var answer any
	switch r.URL.Path {
	case "/system/login":
		answer = v1.Login{Issuers: []v1.LoginIssuer{{Issuer: s.issuer.URL, ClientID: "cli"}}}
	case "/system/whoami":
		if s.interrupts.Load() {
			s.interrupt()
			<-r.Context().Done()
			return
		}
		subject, _, err := s.issuer.Check(r.Context(), strings.TrimPrefix(given, "Bearer "))
		if err != nil || subject != person || s.refuses.Load() {
			w.Header().Set("Content-Type", v1.ProblemType)
			w.WriteHeader(http.StatusUnauthorized)
			answer = v1.Problem{Status: http.StatusUnauthorized, Code: v1.CodeUnauthenticated, Title: "no"}
			break
		}
		answer = v1.WhoAmI{Subject: subject, Name: "Alice", Owner: subject, Groups: []string{"physics"}, Rights: []string{v1.RightOwn}}
	}
	if err := json.NewEncoder(w).Encode(answer); err != nil {
		s.t.Error(err)
	}
}

// run runs a command, and gives its status with what it printed.
func (s *site) run(ctx context.Context, args ...string) (status int, stdout, stderr string) {
	var out, errs await.Output
	status = Run(ctx, args, strings.NewReader(""), io.MultiWriter(&out, &s.out), io.MultiWriter(&errs, &s.out))
	return status, out.String(), errs.String()
}

// login runs a login by device code, which a person answers.
func (s *site) login(args ...string) (status int, stdout, stderr string) {
	s.t.Helper()
	return s.answered(append([]string{"login"}, args...)...)
}

// answered runs a command that shows a device code, which a person answers.
func (s *site) answered(args ...string) (status int, stdout, stderr string) {
	s.t.Helper()
	var out await.Output
	status, stderr = s.answeredInto(io.MultiWriter(&out, &s.out), args...)
	return status, out.String(), stderr
}

// answeredInto is answered with a standard output of its own.
func (s *site) answeredInto(stdout io.Writer, args ...string) (status int, stderr string) {
	s.t.Helper()
	ctx, cancel := context.WithCancel(s.t.Context())
	defer cancel()
	s.interrupt = cancel
	var errs await.Output
	done := make(chan int, 1)
	go func() {
		done <- Run(ctx, args, strings.NewReader(""), stdout, io.MultiWriter(&errs, &s.out))
	}()
	s.answer(&errs, func() bool { return len(done) > 0 })
	return <-done, errs.String()
}

// answer has a person type the device code that a command shows, unless that ends.
func (s *site) answer(stderr *await.Output, ended func() bool) {
	s.t.Helper()
	code := regexp.MustCompile(`type the code {2}(\S+)`)
	await.Until(s.t, "a code is shown, or the command ends", func() bool {
		if found := code.FindStringSubmatch(stderr.String()); found != nil {
			s.issuer.Decide(found[1], person)
			return true
		}
		return ended()
	})
}

// files are those with a login.
func (s *site) files() []string {
	s.t.Helper()
	files, err := filepath.Glob(filepath.Join(s.home, "oscarfed", "logins", "*.json"))
	if err != nil {
		s.t.Error(err)
	}
	return files
}

// kept is the login of the only context.
func (s *site) kept() login.Record {
	s.t.Helper()
	files := s.files()
	if len(files) != 1 {
		s.t.Fatalf("the logins are %v", files)
	}
	r, err := login.File(files[0]).Load()
	if err != nil {
		s.t.Fatal(err)
	}
	if (r.Keyring == "") != (r.RefreshToken != "") {
		s.t.Error("the refresh token is in the file and in the keyring, or in none")
	}
	if r, err = r.Whole(s.t.Context()); err != nil {
		s.t.Fatal(err)
	}
	return r
}

// TestLoginWhoAmILogout goes through the life of a login, with its refresh token in the file and in a
// keyring. No token of it is in what commands print.
func TestLoginWhoAmILogout(t *testing.T) {
	t.Run("file", func(t *testing.T) { testLifeOfALogin(t, newSite(t), false) })
	t.Run("keyring", func(t *testing.T) {
		s := newSite(t)
		keyring.MockInit()
		t.Setenv("DBUS_SESSION_BUS_ADDRESS", "unix:path=/of/a/keyring")
		testLifeOfALogin(t, s, true)
	})
}

func testLifeOfALogin(t *testing.T, s *site, hidden bool) {
	status, stdout, stderr := s.login("--endpoint", s.api)
	if status != exit.Done || !strings.Contains(stdout, person) {
		t.Fatalf("status %d: %s%s", status, stdout, stderr)
	}
	first := s.kept()
	// The first context is the current one: nothing has to be said any more.
	if status, stdout, stderr := s.run(t.Context(), "whoami"); status != exit.Done || !strings.Contains(stdout, "physics") {
		t.Fatalf("status %d: %s%s", status, stdout, stderr)
	}
	// Its token is revoked before its time: it is renewed, and the command goes on.
	s.issuer.Rotate()
	if status, stdout, stderr := s.run(t.Context(), "whoami", "-o", "name"); status != exit.Done || stdout != person+"\n" {
		t.Fatalf("status %d: %s%s", status, stdout, stderr)
	}
	second := s.kept()
	if second.AccessToken == first.AccessToken || second.RefreshToken == first.RefreshToken {
		t.Error("the tokens were not renewed")
	}
	// Another login replaces it, and is not ended with it.
	if status, _, stderr := s.login(); status != exit.Done {
		t.Fatalf("status %d: %s", status, stderr)
	}
	third := s.kept()
	if status, _, stderr := s.run(t.Context(), "whoami"); status != exit.Done || s.issuer.Revoked(third.RefreshToken) {
		t.Fatalf("the second login: status %d: %s", status, stderr)
	}
	if status, _, stderr := s.run(t.Context(), "logout"); status != exit.Done || !s.issuer.Revoked(third.RefreshToken) {
		t.Fatalf("status %d: %s", status, stderr)
	}
	if _, err := os.Stat(filepath.Join(s.home, "oscarfed", "logins")); err != nil {
		t.Error(err)
	}
	if status, _, stderr := s.run(t.Context(), "whoami"); status != exit.NotAuthorised || !strings.Contains(stderr, "oscarfed login") {
		t.Errorf("after the logout: status %d: %s", status, stderr)
	}
	if status, _, _ := s.run(t.Context(), "logout"); status != exit.NotFound {
		t.Errorf("a second logout: status %d", status)
	}
	for _, given := range s.authorizations["/system/login"] {
		if given != "" {
			t.Errorf("credentials were sent to ask how to log in: %s", given)
		}
	}
	for _, r := range []login.Record{first, second, third} {
		if (r.Keyring != "") != hidden {
			t.Errorf("in a keyring: %v", r.Keyring != "")
		}
		if _, err := keyring.Get("oscarfed", r.Keyring); hidden && !errors.Is(err, keyring.ErrNotFound) {
			t.Error("the keyring still has a refresh token")
		}
		for _, secret := range []string{r.AccessToken, r.RefreshToken} {
			if strings.Contains(s.out.String(), secret) {
				t.Error("a token was printed")
			}
		}
	}
}

// TestARefreshTokenOfAServicesOwn: it is of another login than the person's, which stays as it is, and in a file that only
// she can read.
func TestARefreshTokenOfAServicesOwn(t *testing.T) {
	s := newSite(t)
	if status, _, stderr := s.login("--endpoint", s.api); status != exit.Done {
		t.Fatalf("status %d: %s", status, stderr)
	}
	before, path := s.kept(), filepath.Join(s.home, "refresh.token")
	status, stdout, stderr := s.answered("token", "new", "--file", path)
	if status != exit.Done || stdout != "" || !strings.Contains(stderr, path) {
		t.Fatalf("status %d: %q, %s", status, stdout, stderr)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	token := strings.TrimSpace(string(text))
	if token == "" || s.kept() != before || token == before.RefreshToken || strings.Contains(s.out.String(), token) {
		t.Errorf("the token %q of %s%s, and the login %+v", token, stdout, stderr, s.kept())
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("its file: %v, %v", info, err)
	}
	if status, _, _ := s.answered("token", "new", "--file", path); status != exit.Usage {
		t.Errorf("a file that is there: status %d", status)
	}
	// Into another program, whose token it is then.
	if status, stdout, stderr := s.answered("token", "new", "--file", "-"); status != exit.Done || len(strings.Fields(stdout)) != 1 {
		t.Errorf("status %d: %q, %s", status, stdout, stderr)
	}
	// Nothing is left of one that nobody has logged in for.
	s.issuer.Grant(issuer.Grants{ClientID: "cli", Before: func() int { return http.StatusBadRequest }})
	other := filepath.Join(s.home, "other.token")
	if status, _, stderr := s.answered("token", "new", "--file", other); status == exit.Done {
		t.Errorf("status %d: %s", status, stderr)
	}
	if _, err := os.Stat(other); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("its file is there: %v", err)
	}
}

// TestLoginOpensTheBrowser: the browser's program gets the page as one argument, without any token or
// verifier, and the loopback gets the answer.
func TestLoginOpensTheBrowser(t *testing.T) {
	s := newSite(t)
	args := filepath.Join(s.home, "args")
	browser := filepath.Join(s.home, "browser")
	script := "#!/bin/sh\nprintf '%s\\n' \"$@\" > " + args + ".new\nmv " + args + ".new " + args + "\n"
	if err := os.WriteFile(browser, []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	t.Setenv("BROWSER", browser)
	done := make(chan int, 1)
	var errs await.Output
	go func() {
		done <- Run(t.Context(), []string{"login", "--browser", "--endpoint", s.api}, strings.NewReader(""), &s.out, io.MultiWriter(&errs, &s.out))
	}()
	var page string
	await.Until(t, "the browser is opened", func() bool {
		text, err := os.ReadFile(args)
		page = strings.TrimSpace(string(text))
		return err == nil || len(done) > 0
	})
	if strings.Contains(page, "\n") || strings.Contains(page, "verifier") || !strings.HasPrefix(page, s.issuer.URL) {
		t.Fatalf("the browser was given %q: %s", page, errs.String())
	}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, page, strings.NewReader(url.Values{"subject": {person}}.Encode()))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	transport := &http.Transport{}
	defer transport.CloseIdleConnections()
	resp, err := (&http.Client{Transport: transport, Timeout: time.Minute}).Do(req)
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	if status := <-done; status != exit.Done || strings.Contains(s.out.String(), s.kept().RefreshToken) {
		t.Errorf("status %d: %s", status, errs.String())
	}
}

// TestALoginThatTheAPIRefusesIsNotKept: the issuer knows the person, and the API does not let her in.
func TestALoginThatTheAPIRefusesIsNotKept(t *testing.T) {
	s := newSite(t)
	other := issuer.New(t, "")
	other.User(person, nil)
	s.issuer = other
	own := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		if r.URL.Path != "/system/login" {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		_ = json.NewEncoder(w).Encode(v1.Login{Issuers: []v1.LoginIssuer{{Issuer: other.URL, ClientID: "cli"}}})
	}))
	defer own.Close()
	status, _, stderr := s.login("--endpoint", own.URL)
	if status != exit.NotAuthorised || !strings.Contains(stderr, "does not let you in") {
		t.Errorf("status %d: %s", status, stderr)
	}
	if files := s.files(); len(files) != 0 {
		t.Errorf("kept: %v", files)
	}
	if _, stdout, _ := s.run(t.Context(), "context", "list", "--no-headers"); stdout != "" {
		t.Errorf("a context was made: %s", stdout)
	}
}

// TestALoginThatTheAPIRefusesLeavesTheFormerOne, although both are one session at the issuer.
func TestALoginThatTheAPIRefusesLeavesTheFormerOne(t *testing.T) {
	s := newSite(t)
	if status, _, stderr := s.login("--endpoint", s.api); status != exit.Done {
		t.Fatalf("status %d: %s", status, stderr)
	}
	former := s.kept()
	s.refuses.Store(true)
	if status, _, stderr := s.login(); status != exit.NotAuthorised {
		t.Fatalf("the second login: status %d: %s", status, stderr)
	}
	s.refuses.Store(false)
	if s.kept().RefreshToken != former.RefreshToken {
		t.Error("the former login is not kept")
	}
	if status, _, stderr := s.run(t.Context(), "whoami"); status != exit.Done {
		t.Errorf("the former login: status %d: %s", status, stderr)
	}
}

// The person interrupts a login while the API is asked who he is. No login stays that no context names, and the former
// one is there again.
func TestAnInterruptedLoginIsTakenBack(t *testing.T) {
	s := newSite(t)
	s.interrupts.Store(true)
	if status, _, stderr := s.login("--endpoint", s.api); status != exit.InProgress {
		t.Fatalf("status %d: %s", status, stderr)
	}
	if files := s.files(); len(files) > 0 {
		t.Errorf("kept: %v", files)
	}
	s.interrupts.Store(false)
	if status, _, stderr := s.login("--endpoint", s.api); status != exit.Done {
		t.Fatalf("status %d: %s", status, stderr)
	}
	former := s.kept()
	s.interrupts.Store(true)
	if status, _, stderr := s.login(); status != exit.InProgress {
		t.Fatalf("status %d: %s", status, stderr)
	}
	if s.kept().RefreshToken != former.RefreshToken {
		t.Error("the former login is lost")
	}
}

// TestALoginOfAnotherClientEndsTheFormerOne: that is another session.
func TestALoginOfAnotherClientEndsTheFormerOne(t *testing.T) {
	s := newSite(t)
	s.issuer.Grant(issuer.Grants{OneSession: true})
	if status, _, stderr := s.login("--endpoint", s.api, "--client-id", "former"); status != exit.Done {
		t.Fatalf("status %d: %s", status, stderr)
	}
	former := s.kept()
	if status, _, stderr := s.login("--client-id", "later"); status != exit.Done {
		t.Fatalf("the second login: status %d: %s", status, stderr)
	}
	if !s.issuer.Revoked(former.RefreshToken) || s.issuer.Revoked(s.kept().RefreshToken) {
		t.Error("the former login is not ended, or the later one is")
	}
}

// oscarCLI writes the configuration of an oscar-cli that is logged in, and returns its refresh token.
func (s *site) oscarCLI() string {
	s.t.Helper()
	s.issuer.Grant(issuer.Grants{ClientID: "cli"})
	refresh := s.issuer.RefreshToken(person)
	if err := os.MkdirAll(filepath.Join(s.home, ".oscar-cli"), 0o700); err != nil {
		s.t.Fatal(err)
	}
	text := "oscar:\n  site:\n    oidc_refresh_token: " + refresh + "\ndefault: site\n"
	if err := os.WriteFile(filepath.Join(s.home, ".oscar-cli", "config.yaml"), []byte(text), 0o600); err != nil {
		s.t.Fatal(err)
	}
	return refresh
}

// TestALoginOfOscarCLIIsNotEnded, neither by a logout nor by another login: that program goes on with it.
func TestALoginOfOscarCLIIsNotEnded(t *testing.T) {
	s := newSite(t)
	for what, end := range map[string][]string{"a logout": {"logout"}, "another login": {"login", "--client-id", "later"}} {
		refresh := s.oscarCLI()
		if status, _, stderr := s.run(t.Context(), "login", "--endpoint", s.api, "--oscar-cli", "--issuer", s.issuer.URL, "--client-id", "cli"); status != exit.Done {
			t.Fatalf("status %d: %s", status, stderr)
		}
		renewed := s.kept().RefreshToken
		s.issuer.Grant(issuer.Grants{})
		run := s.run
		if end[0] == "login" {
			run = func(_ context.Context, args ...string) (int, string, string) { return s.login(args[1:]...) }
		}
		if status, _, stderr := run(t.Context(), end...); status != exit.Done {
			t.Fatalf("%s: status %d: %s", what, status, stderr)
		}
		if s.issuer.Revoked(refresh) || s.issuer.Revoked(renewed) {
			t.Errorf("%s has ended the login of oscar-cli", what)
		}
	}
}

// TestARefusedLoginOfOscarCLIIsNotEnded: it is that program's, however it was asked for.
func TestARefusedLoginOfOscarCLIIsNotEnded(t *testing.T) {
	s := newSite(t)
	refresh := s.oscarCLI()
	s.refuses.Store(true)
	for _, how := range []string{"--oscar-cli", "--oscar-cli-cluster=site"} {
		if status, _, stderr := s.run(t.Context(), "login", "--endpoint", s.api, how, "--issuer", s.issuer.URL, "--client-id", "cli"); status != exit.NotAuthorised {
			t.Fatalf("%s: status %d: %s", how, status, stderr)
		}
		if s.issuer.Revoked(refresh) {
			t.Errorf("%s: the login of oscar-cli is ended", how)
		}
	}
}
