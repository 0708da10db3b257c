package cli

import (
	"context"
	"encoding/json"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/oscarfed/oscarfed/internal/cli/exit"
	"github.com/oscarfed/oscarfed/internal/cli/login"
	"github.com/oscarfed/oscarfed/test/await"
	"github.com/oscarfed/oscarfed/test/issuer"
)

// A logout ends the login as it is: nothing renews it meanwhile, whose new tokens nobody would end.
func TestALoginIsNotRenewedWhileItIsEnded(t *testing.T) {
	s := newSite(t)
	if status, _, stderr := s.login("--endpoint", s.api); status != exit.Done {
		t.Fatalf("status %d: %s", status, stderr)
	}
	kept := s.kept()
	renewed := make(chan error, 1)
	s.issuer.Grant(issuer.Grants{ClientID: "cli", Rotate: true, Forgets: true, Revoking: func() {
		file := s.files()[0]
		if f, err := os.OpenFile(file+".lock", os.O_RDWR, 0); err != nil {
			t.Error(err)
		} else {
			if syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) == nil {
				t.Error("another process can renew the login")
			}
			_ = f.Close()
		}
		go func() {
			_, err := login.NewSource(login.File(file), s.api).Token(t.Context(), kept.AccessToken)
			renewed <- err
		}()
	}})
	if status, _, stderr := s.run(t.Context(), "logout"); status != exit.Done {
		t.Fatalf("status %d: %s", status, stderr)
	}
	if err := <-renewed; err == nil || !strings.Contains(err.Error(), "logged out") {
		t.Errorf("a renewal of another process: %v", err)
	}
	if exchanges, _ := s.issuer.Exchanges(); exchanges != 0 || !s.issuer.Revoked(kept.RefreshToken) || len(s.files()) != 0 {
		t.Errorf("%d renewals, and the files %v", exchanges, s.files())
	}
}

// A logout that is interrupted before the issuer has answered can be done again.
func TestAnInterruptedLogoutCanBeDoneAgain(t *testing.T) {
	s := newSite(t)
	if status, _, stderr := s.login("--endpoint", s.api); status != exit.Done {
		t.Fatalf("status %d: %s", status, stderr)
	}
	kept := s.kept()
	ctx, interrupt := context.WithCancel(t.Context())
	gone := make(chan struct{})
	s.issuer.Grant(issuer.Grants{ClientID: "cli", Revoking: func() {
		interrupt()
		<-gone
	}})
	status, _, stderr := s.run(ctx, "logout")
	close(gone)
	if status != exit.InProgress || s.kept() != kept {
		t.Fatalf("status %d: %s", status, stderr)
	}
	s.issuer.Grant(issuer.Grants{ClientID: "cli"})
	if status, _, stderr := s.run(t.Context(), "logout"); status != exit.Done || !s.issuer.Revoked(kept.RefreshToken) {
		t.Errorf("status %d: %s", status, stderr)
	}
}

// The tokens of a login that the API refuses are renewed before it is taken back: those that it has then are ended.
func TestARefusedLoginIsEndedAsItIs(t *testing.T) {
	s := newSite(t)
	s.issuer.Grant(issuer.Grants{ClientID: "cli", Rotate: true, Forgets: true})
	s.refuses.Store(true)
	if status, _, stderr := s.login("--endpoint", s.api); status != exit.NotAuthorised {
		t.Fatalf("status %d: %s", status, stderr)
	}
	if exchanges, _ := s.issuer.Exchanges(); exchanges != 1 || len(s.files()) != 0 {
		t.Fatalf("%d renewals, and the files %v", exchanges, s.files())
	}
	for _, given := range s.authorizations["/system/whoami"] {
		if _, _, err := s.issuer.Check(t.Context(), strings.TrimPrefix(given, "Bearer ")); err == nil {
			t.Error("a token of the refused login is still good")
		}
	}
}

// A login that cannot be kept is ended: no file has it.
func TestALoginThatCannotBeKeptIsEnded(t *testing.T) {
	s := newSite(t)
	dir := filepath.Join(s.home, "oscarfed", "logins")
	if err := os.MkdirAll(filepath.Dir(dir), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(dir, nil, 0o600); err != nil { // no folder can be made there
		t.Fatal(err)
	}
	revoked := make(chan struct{}, 1)
	s.issuer.Grant(issuer.Grants{ClientID: "cli", Revoking: func() { revoked <- struct{}{} }})
	status, _, stderr := s.login("--endpoint", s.api)
	if status == exit.Done || len(revoked) != 1 {
		t.Errorf("status %d, %d revocations: %s", status, len(revoked), stderr)
	}
}

// A refresh token for a service that nobody has got is ended, unless that would end the login of the person, too.
func TestARefreshTokenThatCannotBeWrittenIsEnded(t *testing.T) {
	for name, client := range map[string]string{"of a client of its own": "services", "of the client of the login": "cli"} {
		t.Run(name, func(t *testing.T) {
			s := newSite(t)
			if status, _, stderr := s.login("--endpoint", s.api); status != exit.Done {
				t.Fatalf("status %d: %s", status, stderr)
			}
			ended := 0
			s.issuer.Grant(issuer.Grants{ClientID: client, Revoking: func() { ended++ }})
			stdout := writerFunc(func([]byte) (int, error) { return 0, syscall.ENOSPC })
			status, stderr := s.answeredInto(stdout, "token", "new", "--file", "-", "--client-id", client)
			own := client == "cli"
			if status != exit.Failed || (ended == 1) == own || strings.Contains(stderr, "is not ended at its issuer") != own {
				t.Errorf("status %d, %d ended: %s", status, ended, stderr)
			}
		})
	}
}

// A program that does not take the refresh token does not keep it from being ended.
func TestARefreshTokenThatNoProgramTakesIsEnded(t *testing.T) {
	s := newSite(t)
	ended := make(chan struct{}, 1)
	s.issuer.Grant(issuer.Grants{ClientID: "services", Revoking: func() { ended <- struct{}{} }})
	program, stdout, err := os.Pipe()
	if err == nil {
		err = program.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
	defer stdout.Close() //nolint:errcheck // nobody reads it
	var stderr await.Output
	cmd := exec.CommandContext(t.Context(), "oscarfed", "token", "new", "--file", "-", "--endpoint", s.api, "--client-id", "services")
	cmd.Stdout, cmd.Stderr = stdout, &stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- cmd.Wait() }()
	s.answer(&stderr, func() bool { return len(done) > 0 })
	if err := <-done; cmd.ProcessState.ExitCode() != exit.Failed || len(ended) != 1 {
		t.Errorf("%v, %d ended: %s", err, len(ended), stderr.String())
	}
}

// A login of another process that has replaced a refused one stays.
func TestARefusedLoginLeavesTheOneThatReplacedIt(t *testing.T) {
	s := newSite(t)
	s.refuses.Store(true)
	other := login.Record{ID: "other", API: s.api, Issuer: s.issuer.URL, ClientID: "cli", RefreshToken: "r", AccessToken: "a"}
	s.issuer.Grant(issuer.Grants{ClientID: "cli", After: func() int {
		if files := s.files(); len(files) > 0 { // it is renewed, since it is refused
			data, err := json.Marshal(other)
			if err == nil {
				err = os.WriteFile(files[0], data, 0o600)
			}
			if err != nil {
				t.Error(err)
			}
			return http.StatusServiceUnavailable
		}
		return 0
	}})
	if status, _, stderr := s.login("--endpoint", s.api); status != exit.NotAuthorised {
		t.Fatalf("status %d: %s", status, stderr)
	}
	if s.kept() != other {
		t.Errorf("it has %+v", s.kept())
	}
}

// A context that is given other credentials, or another endpoint, has no login any more: what no command could end is ended.
func TestALoginThatItsContextHasNoLongerIsEnded(t *testing.T) {
	for name, args := range map[string][]string{
		"a token":          {"--token-file", "a.token"},
		"another endpoint": {"--endpoint", "https://other.example"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSite(t)
			if status, _, stderr := s.login("--endpoint", s.api, "--context", "site"); status != exit.Done {
				t.Fatalf("status %d: %s", status, stderr)
			}
			kept := s.kept()
			if status, _, stderr := s.run(t.Context(), "context", "set", "site", "--ca-file", "ca.pem"); status != exit.Done || s.kept() != kept || s.issuer.Revoked(kept.RefreshToken) {
				t.Fatalf("what it keeps: status %d: %s", status, stderr)
			}
			status, _, stderr := s.run(t.Context(), append([]string{"context", "set", "site"}, args...)...)
			if status != exit.Done || !s.issuer.Revoked(kept.RefreshToken) || len(s.files()) != 0 || !strings.Contains(stderr, "it has no login at "+s.api+" any more") {
				t.Errorf("status %d, files %v: %s", status, s.files(), stderr)
			}
		})
	}
}
