package login

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	"errors"
	"net"
	"net/http"
	"net/url"
	"sync/atomic"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"golang.org/x/oauth2"

	"github.com/oscarfed/oscarfed/internal/cli/exit"
)

const (
	callbackPath = "/callback"
	// closing bounds how long the browser may take to read its last page.
	closing = 5 * time.Second
	// maxBrowserLogin bounds how long a person may take.
	maxBrowserLogin = 10 * time.Minute
)

// Browser logs a person in with a browser on this machine: an authorization code with PKCE, which
// comes back to the loopback (RFC 8252). tell is given the page to open.
func (p *Provider) Browser(ctx context.Context, tell func(page string)) (Record, error) {
	if p.config.Endpoint.AuthURL == "" {
		return Record{}, exit.Errorf(exit.Failed, "issuer %s: has no authorization endpoint: oscarfed login --device", p.issuer)
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return Record{}, err
	}
	config := p.config
	config.RedirectURL = "http://" + listener.Addr().String() + callbackPath
	state, nonce, verifier := rand.Text(), rand.Text(), oauth2.GenerateVerifier()
	answer, err := awaitBrowser(ctx, listener, func() {
		tell(config.AuthCodeURL(state, oidc.Nonce(nonce), oauth2.S256ChallengeOption(verifier)))
	})
	if err != nil {
		return Record{}, err
	}
	code, err := p.codeOf(answer, state)
	if err != nil {
		return Record{}, err
	}
	got, err := config.Exchange(p.with(ctx), code, oauth2.VerifierOption(verifier))
	if err != nil {
		return Record{}, p.failed(ctx, err, code, verifier)
	}
	return p.record(ctx, got, nonce)
}

// awaitBrowser serves the redirect until a browser has brought an answer.
func awaitBrowser(ctx context.Context, listener net.Listener, begin func()) (answer url.Values, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, maxBrowserLogin,
		exit.Errorf(exit.NotAuthorised, "no browser came back within %s: oscarfed login begins again, and --device needs no browser here", maxBrowserLogin))
	defer cancel()
	back := &callback{host: listener.Addr().String(), answers: make(chan url.Values, 1)}
	server := &http.Server{Handler: back, ReadTimeout: callTimeout, WriteTimeout: callTimeout, MaxHeaderBytes: 64 << 10}
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	begin()
	select {
	case answer = <-back.answers:
	case <-ctx.Done():
		err = context.Cause(ctx)
	}
	ending, stop := context.WithTimeout(context.WithoutCancel(ctx), closing)
	defer stop()
	if server.Shutdown(ending) != nil {
		_ = server.Close() // a browser that does not read is not waited for
	}
	if end := <-served; !errors.Is(end, http.ErrServerClosed) {
		err = errors.Join(err, end)
	}
	return answer, err
}

// codeOf checks what a browser brought back.
func (p *Provider) codeOf(answer url.Values, state string) (string, error) {
	switch {
	case subtle.ConstantTimeCompare([]byte(answer.Get("state")), []byte(state)) != 1:
		return "", exit.Errorf(exit.NotAuthorised, "the browser brought the answer to another login (state): oscarfed login begins again")
	case answer.Has("iss") && answer.Get("iss") != p.issuer: // RFC 9207
		return "", exit.Errorf(exit.NotAuthorised, "the browser brought the answer of another issuer than %s", p.issuer)
	case answer.Get("error") == "access_denied":
		return "", exit.Errorf(exit.NotAuthorised, "the login was refused at %s", p.issuer)
	case answer.Has("error"):
		return "", exit.Errorf(exit.Failed, "issuer %s: %.100q", p.issuer, answer.Get("error"))
	case answer.Get("code") == "":
		return "", exit.Errorf(exit.Failed, "issuer %s: sent the browser back without a code", p.issuer)
	}
	return answer.Get("code"), nil
}

// callback takes one request: the redirect by which the issuer sends a browser back.
type callback struct {
	host    string
	taken   atomic.Bool
	answers chan url.Values
}

// ServeHTTP implements http.Handler. A request under another name than the listener's address is
// one of a page that had its own name resolved to the loopback.
func (c *callback) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("Referrer-Policy", "no-referrer")
	w.Header().Set("Connection", "close")
	switch {
	case r.Host != c.host || r.URL.Path != callbackPath:
		http.Error(w, "There is nothing here.", http.StatusNotFound)
	case r.Method != http.MethodGet:
		http.Error(w, "Only GET.", http.StatusMethodNotAllowed)
	case c.taken.Swap(true):
		http.Error(w, "The answer has come already.", http.StatusGone)
	default:
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		_, _ = w.Write([]byte("Go back to the terminal: it says whether you are logged in. This page can be closed.\n"))
		c.answers <- r.URL.Query()
	}
}
