// Package issuer runs the simulated OpenID provider in tests.
package issuer

import (
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/oscarfed/oscarfed/internal/oidcsim"
)

// Grants says how tokens are given.
type Grants = oidcsim.Grants

// Issuer is one provider, reached at URL.
type Issuer struct {
	*oidcsim.Provider

	t testing.TB
}

// New starts a provider on the loopback, whose issuer ends in path, such as /realms/egi.
func New(t testing.TB, path string) *Issuer {
	t.Helper()
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return Serve(t, l, path)
}

// Serve starts one at a listener.
func Serve(t testing.TB, l net.Listener, path string) *Issuer {
	t.Helper()
	provider, err := oidcsim.New("http://" + l.Addr().String() + path)
	if err != nil {
		t.Fatal(err)
	}
	server := &httptest.Server{Listener: l, Config: &http.Server{Handler: provider, ReadHeaderTimeout: time.Minute}}
	server.Start()
	t.Cleanup(server.Close)
	return &Issuer{Provider: provider, t: t}
}

// Rotate replaces the signing key: tokens of the former one are good no more.
func (i *Issuer) Rotate() {
	i.t.Helper()
	if err := i.Provider.Rotate(); err != nil {
		i.t.Fatal(err)
	}
}

// Token is an access token of an hour for a subject; claims replace its own, and
// a nil one takes it away.
func (i *Issuer) Token(subject string, claims map[string]any) string {
	i.t.Helper()
	token, err := i.Provider.Token(subject, claims)
	if err != nil {
		i.t.Fatal(err)
	}
	return token
}

// Sign makes a token with any key.
func (i *Issuer) Sign(key any, kid, alg, subject string, claims map[string]any) string {
	i.t.Helper()
	token, err := i.Provider.Sign(key, kid, alg, subject, claims)
	if err != nil {
		i.t.Fatal(err)
	}
	return token
}
