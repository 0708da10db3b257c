package openid

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"

	"github.com/oscarfed/oscarfed/test/await"
	"github.com/oscarfed/oscarfed/test/module"
)

// Names of the realms. That of EGI tells groups as entitlements.
const (
	Science = "science"
	EGI     = "egi"
)

// Provider is a running provider.
type Provider struct {
	origin string
	cmd    *exec.Cmd
	stdin  io.Closer
	log    *await.Output
	ended  chan error
}

// startPatience is how long a provider may take to listen.
const startPatience = await.Limit

// Start starts a provider. It ends by Stop, and with this process.
func Start() (*Provider, error) {
	script, folder, err := installed()
	if err != nil {
		return nil, err
	}
	node := filepath.Join(folder, "node")
	if _, err := os.Stat(node); err != nil {
		node = "node" // the machine's is new enough
	}
	p := &Provider{cmd: exec.Command(node, script, folder), log: &await.Output{}, ended: make(chan error, 1)}
	p.cmd.Stderr = p.log
	// It ends when its standard input does, which the kernel closes if we die.
	if p.stdin, err = p.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := p.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start the OpenID provider: %w", err)
	}
	ready := make(chan error, 1)
	go func() {
		var said struct {
			Origin string `json:"origin"`
		}
		line, err := bufio.NewReader(out).ReadBytes('\n')
		if err == nil {
			err = json.Unmarshal(line, &said)
		}
		p.origin = said.Origin
		ready <- err
		p.ended <- p.cmd.Wait()
	}()
	select {
	case err = <-ready:
	case <-time.After(startPatience):
		err = errors.New("it does not listen")
	}
	if err != nil {
		_ = p.cmd.Process.Kill()
		return nil, fmt.Errorf("start the OpenID provider: %w: %s", err, p.log)
	}
	return p, nil
}

// Stop ends the provider. It tells of what it found wrong with itself.
func (p *Provider) Stop() error {
	err := p.stdin.Close()
	select {
	case ended := <-p.ended:
		return errors.Join(err, ended)
	case <-time.After(startPatience):
		return errors.Join(errors.New("the OpenID provider did not end"), p.cmd.Process.Kill())
	}
}

// installed gives the provider's program and the folder with what it needs.
func installed() (script, folder string, err error) {
	root, err := module.Root()
	if err != nil {
		return "", "", err
	}
	raw, err := os.ReadFile(filepath.Join(root, "test", "openid", "package.json"))
	if err != nil {
		return "", "", err
	}
	var wants struct {
		Dependencies map[string]string `json:"dependencies"`
	}
	if err := json.Unmarshal(raw, &wants); err != nil {
		return "", "", fmt.Errorf("test/openid/package.json: %w", err)
	}
	folder = filepath.Join(root, "build", "tools", "openid-"+wants.Dependencies["oidc-provider"])
	if _, err := os.Stat(filepath.Join(folder, "built")); err != nil {
		return "", "", fmt.Errorf("this test needs an OpenID provider: run `make openid` once (`make test` does it by itself): %w", err)
	}
	return filepath.Join(root, "test", "openid", "provider.mjs"), folder, nil
}

// Realm is one issuer of a provider, for one test.
type Realm struct {
	t    testing.TB
	p    *Provider
	name string
	// http speaks to the provider in the test's name.
	http *http.Client
}

// Realm gives an issuer of the provider, by its name.
func (p *Provider) Realm(t testing.TB, name string) *Realm {
	t.Helper()
	transport := &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the OpenID provider says: %s", p.log)
		}
	})
	return &Realm{t: t, p: p, name: name, http: &http.Client{Transport: transport, Timeout: await.Limit}}
}

// Issuer is its URL, as it stands in its tokens' iss.
func (r *Realm) Issuer() string { return r.p.origin + "/realms/" + r.name }

// User makes a user, or changes what is told of him.
func (r *Realm) User(subject string, claims map[string]any) {
	r.t.Helper()
	body, err := json.Marshal(claims)
	if err != nil {
		r.t.Fatal(err)
	}
	r.do(http.MethodPut, r.p.origin+"/users/"+r.name+"/"+url.PathEscape(subject), "application/json", string(body), http.StatusNoContent)
}

// Token is an access token of a user. All of its claims are the provider's.
func (r *Realm) Token(subject string, claims map[string]any) string {
	r.t.Helper()
	if len(claims) > 0 {
		r.t.Fatalf("a real provider signs no claims of a test's choice: %v", claims)
	}
	return r.Login(subject, Public).Access
}

// Check says whose a token is, as an OSCAR finds it out: claims of
// userinfo, when the token is good.
func (r *Realm) Check(ctx context.Context, token string) (subject string, claims map[string]any, err error) {
	ctx = oidc.ClientContext(ctx, r.http)
	provider, err := oidc.NewProvider(ctx, r.Issuer())
	if err != nil {
		return "", nil, err
	}
	id, err := provider.VerifierContext(ctx, &oidc.Config{SkipClientIDCheck: true}).Verify(ctx, token)
	if err != nil {
		return "", nil, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, provider.UserInfoEndpoint(), nil)
	if err != nil {
		return "", nil, err
	}
	req.Header.Set("Authorization", "Bearer "+token)
	resp, err := r.http.Do(req)
	if err != nil {
		return "", nil, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return "", nil, fmt.Errorf("userinfo answers %d", resp.StatusCode)
	}
	return id.Subject, claims, json.NewDecoder(resp.Body).Decode(&claims)
}

// RevokeGrant revokes the grant that a token belongs to, as its user would at the
// provider.
func (r *Realm) RevokeGrant(token string, as Client) {
	r.t.Helper()
	form := url.Values{"token": {token}, "client_id": {as.ID}}
	r.do(http.MethodPost, r.Issuer()+"/protocol/openid-connect/revoke", "application/x-www-form-urlencoded", form.Encode(), http.StatusOK)
}

func (r *Realm) do(method, url, kind, body string, want int) {
	r.t.Helper()
	req, err := http.NewRequestWithContext(r.t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		r.t.Fatal(err)
	}
	req.Header.Set("Content-Type", kind)
	resp, err := r.http.Do(req)
	if err != nil {
		r.t.Fatal(err)
	}
	_ = resp.Body.Close()
	if resp.StatusCode != want {
		r.t.Fatalf("%s %s answers %d, want %d", method, url, resp.StatusCode, want)
	}
}
