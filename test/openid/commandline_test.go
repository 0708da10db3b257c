package openid_test

import (
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"testing"
	"time"

	"github.com/oscarfed/oscarfed/internal/cli/login"
	"github.com/oscarfed/oscarfed/test/openid"
)

// TestLoginOfTheCommandLine: a real provider logs a person in by a browser, for a redirect to any port of
// the loopback; its tokens are renewed, and end with the logout.
func TestLoginOfTheCommandLine(t *testing.T) {
	const subject = "gwen@science.example"
	realm := provider.Realm(t, openid.Science)
	realm.User(subject, map[string]any{"name": "Gwen"})
	p, err := login.Discover(t.Context(), realm.Issuer(), openid.Public.ID)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	record, err := p.Browser(t.Context(), func(page string) { go browse(t, page, subject) })
	if err != nil {
		t.Fatal(err)
	}
	if who, _, err := realm.Check(t.Context(), record.AccessToken); err != nil || who != subject {
		t.Fatalf("logged in as %q, %v", who, err)
	}
	renewed, err := p.Renew(t.Context(), record)
	if err != nil {
		t.Fatal(err)
	}
	if who, _, err := realm.Check(t.Context(), renewed.AccessToken); err != nil || who != subject || renewed.RefreshToken == record.RefreshToken {
		t.Errorf("renewed for %q, %v", who, err)
	}
	if ended, err := p.Revoke(t.Context(), renewed); err != nil || !ended {
		t.Errorf("revoked: %v, %v", ended, err)
	}
	if _, err := p.Renew(t.Context(), renewed); err == nil {
		t.Error("the login goes on after the logout")
	}
}

// browse opens a page as a browser does, and says who its person is.
func browse(t *testing.T, page, subject string) {
	t.Helper()
	u, err := url.Parse(page)
	if err != nil {
		t.Error(err)
		return
	}
	q := u.Query()
	q.Set("login_hint", subject)
	q.Set("resource", "https://oscar.example")
	u.RawQuery = q.Encode()
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Error(err)
		return
	}
	transport := &http.Transport{}
	defer transport.CloseIdleConnections()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, u.String(), nil)
	if err != nil {
		t.Error(err)
		return
	}
	resp, err := (&http.Client{Transport: transport, Jar: jar, Timeout: time.Minute}).Do(req)
	if err != nil {
		t.Error(err)
		return
	}
	_ = resp.Body.Close()
}
