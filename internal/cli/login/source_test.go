package login

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/oscarfed/oscarfed/internal/cli/exit"
	"github.com/oscarfed/oscarfed/test/issuer"
)

// Each Source stands for a process: they share the file, and nothing else. A provider that replaces
// refresh tokens ends the login when one is used twice.
func TestProcessesThatRenewAtOnceUseTheRefreshTokenOnce(t *testing.T) {
	i := start(t, issuer.Grants{Rotate: true})
	f, _ := keep(t, i, nil)
	tokens := make([]string, 20)
	var wg sync.WaitGroup
	for n := range tokens {
		wg.Go(func() {
			var err error
			if tokens[n], err = NewSource(f, api).Token(t.Context(), ""); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	for _, token := range tokens {
		if token == "" || token != tokens[0] {
			t.Fatal("they have different tokens")
		}
	}
	if exchanges, reuses := i.Exchanges(); exchanges != 1 || reuses != 0 {
		t.Errorf("%d exchanges, %d of a used token", exchanges, reuses)
	}
	if info, err := os.Stat(string(f)); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v %v", info, err)
	}
}

// The API refused the token: it is replaced although it is not over.
func TestARefusedTokenIsRenewedBeforeItsTime(t *testing.T) {
	i := start(t, issuer.Grants{})
	f, kept := keep(t, i, func(r *Record) { r.Expires = time.Now().Add(time.Hour) })
	s := NewSource(f, api)
	if got, err := s.Token(t.Context(), ""); err != nil || got != kept.AccessToken {
		t.Fatalf("%v", err)
	}
	got, err := s.Token(t.Context(), kept.AccessToken)
	if err != nil || got == kept.AccessToken {
		t.Fatalf("the refused token is given again, %v", err)
	}
	if exchanges, _ := i.Exchanges(); exchanges != 1 {
		t.Errorf("%d exchanges", exchanges)
	}
}

func TestALoginGoesToNoOtherServer(t *testing.T) {
	i := start(t, issuer.Grants{})
	f, kept := keep(t, i, func(r *Record) { r.Expires = time.Now().Add(time.Hour) })
	got, err := NewSource(f, "https://other.example").Token(t.Context(), "")
	if got != "" || exit.StatusOf(err) != exit.NotAuthorised || !strings.Contains(err.Error(), api) || strings.Contains(err.Error(), kept.AccessToken) {
		t.Errorf("%q, %v", got, err)
	}
}

// The answer to a renewal is lost. The login stays as it was, and nothing else is left behind; when the
// issuer has replaced the refresh token, it says so at the next use.
func TestACutOffRenewalLeavesTheLoginWhole(t *testing.T) {
	cut := true
	i := start(t, issuer.Grants{Rotate: true, After: func() int {
		if cut {
			return http.StatusBadGateway
		}
		return 0
	}})
	f, kept := keep(t, i, nil)
	if _, err := NewSource(f, api).Token(t.Context(), ""); exit.StatusOf(err) != exit.NotReachable {
		t.Errorf("%v", err)
	}
	if now, err := f.Load(); err != nil || now.RefreshToken != kept.RefreshToken {
		t.Errorf("%v", err)
	}
	if names := left(t, f); len(names) != 2 {
		t.Errorf("left behind: %v", names)
	}
	cut = false
	_, err := NewSource(f, api).Token(t.Context(), "")
	if exit.StatusOf(err) != exit.NotAuthorised || !strings.Contains(err.Error(), "oscarfed login") {
		t.Errorf("%v", err)
	}
}

// While the issuer is away, a token is used to its end, and not past it.
func TestAnIssuerThatIsAway(t *testing.T) {
	i := start(t, issuer.Grants{})
	f, kept := keep(t, i, func(r *Record) { r.Expires = time.Now().Add(margin / 2) })
	i.Answer(http.StatusServiceUnavailable)
	s := NewSource(f, api)
	if got, err := s.Token(t.Context(), ""); err != nil || got != kept.AccessToken {
		t.Errorf("%v", err)
	}
	s.now = func() time.Time { return time.Now().Add(margin) }
	if _, err := s.Token(t.Context(), ""); err == nil {
		t.Error("an expired token is given")
	}
}

func TestFilesThatAreNoLogin(t *testing.T) {
	const canary = "canary-7f3a"
	dir := t.TempDir()
	write := func(name, text string, mode os.FileMode) File {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), mode); err != nil {
			t.Fatal(err)
		}
		return File(path)
	}
	fifo := filepath.Join(dir, "fifo")
	if err := syscall.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	for f, says := range map[File]string{
		write("open", `{"api":"`+api+`","access_token":"`+canary+`"}`, 0o640):  "others can read",
		write("broken", `{"access_token":"`+canary+`"`, 0o600):                 "cannot be read",
		write("spent", `{"api":"`+api+`","access_token":"`+canary+`"}`, 0o600): "no refresh token",
		File(fifo):                         "not a regular file",
		File(dir):                          "not a regular file",
		File(filepath.Join(dir, "absent")): "logged out",
	} {
		_, err := NewSource(f, api).Token(t.Context(), "")
		if err == nil || !strings.Contains(err.Error(), says) || strings.Contains(err.Error(), canary) {
			t.Errorf("%s: %v", filepath.Base(string(f)), err)
		}
	}
	r := Record{API: api, AccessToken: canary, RefreshToken: canary}
	if text := fmt.Sprintf("%v %+v %#v %s", r, r, r, &r); strings.Contains(text, canary) {
		t.Errorf("a login shows its tokens: %s", text)
	}
}

// An issuer that repeats what it was sent does not bring the token into messages.
func TestAnErrorOfTheIssuerHasNoToken(t *testing.T) {
	const canary = "canary-9b1e"
	echo := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusBadRequest)
		fmt.Fprintf(w, `{"error":"bad","error_description":"what is %s?"}`, r.FormValue("refresh_token"))
	}))
	defer echo.Close()
	i := start(t, issuer.Grants{Change: func(_ string, answer map[string]any) {
		if answer["token_endpoint"] != nil {
			answer["token_endpoint"] = echo.URL
		}
	}})
	_, err := discovered(t, i).Renew(t.Context(), Record{RefreshToken: canary})
	if err == nil || !strings.Contains(err.Error(), "what is") || strings.Contains(err.Error(), canary) {
		t.Errorf("%v", err)
	}
}

// The configuration of oscar-cli, and accounts of oidc-agent.
func TestLoginsOfOtherPrograms(t *testing.T) {
	i := start(t, issuer.Grants{})
	refresh := i.Token(alice, map[string]any{"azp": "oscar-cli", "typ": "Refresh"})
	path := filepath.Join(t.TempDir(), "config.yaml")
	text := "oscar:\n  site:\n    endpoint: https://oscar.example.org\n    oidc_refresh_token: " + refresh + "\n    ssl_verify: true\n" +
		"  egi:\n    endpoint: https://b.example.org\n    oidc_account_name: egi-account\n" +
		"  basic:\n    endpoint: https://c.example.org\n    auth_user: oscar\n    auth_password: p\n" +
		"  opaque:\n    oidc_refresh_token: opaque\ndefault: site\n"
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if r, err := FromOscarCLI(path, "", "", ""); err != nil || r.RefreshToken != refresh || r.Issuer != i.URL || r.ClientID != "oscar-cli" {
		t.Errorf("%+v %v", r, err)
	}
	if r, err := FromOscarCLI(path, "egi", "", ""); err != nil || r.Agent != "egi-account" || r.RefreshToken != "" {
		t.Errorf("%+v %v", r, err)
	}
	if r, err := FromOscarCLI(path, "opaque", i.URL, "cli"); err != nil || r.RefreshToken != "opaque" || r.ClientID != "cli" {
		t.Errorf("%+v %v", r, err)
	}
	for cluster, says := range map[string]string{"opaque": "--issuer", "basic": "no account", "nowhere": "basic, egi, opaque, site"} {
		if _, err := FromOscarCLI(path, cluster, "", ""); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v", cluster, err)
		}
	}

	dir := t.TempDir()
	t.Setenv("PATH", dir+string(os.PathListSeparator)+os.Getenv("PATH"))
	script := "#!/bin/sh\n[ \"$2\" = egi ] || { echo \"no account $2\" >&2; exit 1; }\necho agent-token\n"
	if err := os.WriteFile(filepath.Join(dir, "oidc-token"), []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	r, err := FromAgent(t.Context(), "egi")
	if err != nil || r.Agent != "egi" || r.AccessToken != "" {
		t.Errorf("%+v %v", r, err)
	}
	r.API = api
	f := File(filepath.Join(t.TempDir(), "l", "agent.json"))
	if err := save(t, f, r); err != nil {
		t.Fatal(err)
	}
	if token, err := NewSource(f, api).Token(t.Context(), ""); err != nil || token != "agent-token" {
		t.Errorf("%q %v", token, err)
	}
	for _, account := range []string{"none", "--seccomp", ""} {
		if _, err := FromAgent(t.Context(), account); err == nil {
			t.Errorf("account %q gives a token", account)
		}
	}
}
