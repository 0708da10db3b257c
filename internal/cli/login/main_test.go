package login

import (
	"context"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/oscarfed/oscarfed/test/issuer"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	api    = "https://federation.example.org"
	alice  = "alice@science.example"
	client = "oscarfed-cli"
)

// start runs an issuer with one user.
func start(t *testing.T, grants issuer.Grants) *issuer.Issuer {
	t.Helper()
	i := issuer.New(t, "/realms/science")
	i.User(alice, map[string]any{"name": "Alice"})
	grants.ClientID = client
	i.Grant(grants)
	return i
}

func discovered(t *testing.T, i *issuer.Issuer) *Provider {
	t.Helper()
	p, err := Discover(t.Context(), i.URL, client)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Close)
	return p
}

// browse does what a person with a browser does: opens the page, and answers its form.
func browse(t *testing.T, page string, form url.Values) (status int, body string) {
	t.Helper()
	transport := &http.Transport{}
	defer transport.CloseIdleConnections()
	browser := &http.Client{Transport: transport, Timeout: time.Minute}
	send := func(method, body string) (*http.Response, error) {
		req, err := http.NewRequestWithContext(context.Background(), method, page, strings.NewReader(body))
		if err != nil {
			return nil, err
		}
		if body != "" {
			req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		}
		return browser.Do(req)
	}
	resp, err := send(http.MethodGet, "")
	if err == nil {
		_ = resp.Body.Close()
		resp, err = send(http.MethodPost, form.Encode())
	}
	if err != nil {
		t.Errorf("the browser: %v", err)
		return 0, ""
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Errorf("the browser: %v", err)
	}
	return resp.StatusCode, string(text)
}

// as is the form of a person who logs in.
func as(subject string) url.Values { return url.Values{"subject": {subject}, "answer": {"yes"}} }

// keep writes a login with a refresh token whose access token has expired.
func keep(t *testing.T, i *issuer.Issuer, change func(*Record)) (File, Record) {
	t.Helper()
	f := File(filepath.Join(t.TempDir(), "logins", "site.json"))
	r := Record{API: api, Issuer: i.URL, ClientID: client, RefreshToken: i.RefreshToken(alice), AccessToken: i.Token(alice, nil), Expires: time.Now().Add(-time.Minute)}
	if change != nil {
		change(&r)
	}
	if err := save(t, f, r); err != nil {
		t.Fatal(err)
	}
	return f, r
}

// save makes a login what its file has.
func save(t *testing.T, f File, r Record) error {
	t.Helper()
	return f.Update(t.Context(), func(Record, error) (*Record, error) { return &r, nil })
}

// left are the files beside a login's.
func left(t *testing.T, f File) (names []string) {
	t.Helper()
	entries, err := os.ReadDir(filepath.Dir(string(f)))
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}
