package login

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"time"

	"golang.org/x/oauth2"

	"github.com/oscarfed/oscarfed/internal/cli/exit"
)

// What is believed of an issuer's times for the device flow.
const (
	maxInterval    = 60 // seconds between two questions
	maxDeviceLogin = 30 * time.Minute
)

// Prompt is what a person does to log in.
type Prompt struct {
	// URL is the page to open. Code is typed there, unless Complete is opened, which has it.
	URL, Code, Complete string
	Until               time.Time
}

// Device logs a person in who opens a page on any device (RFC 8628). tell shows what to do.
func (p *Provider) Device(ctx context.Context, tell func(Prompt)) (Record, error) {
	if !p.HasDevice() {
		return Record{}, exit.Errorf(exit.Failed, "issuer %s: has no device endpoint: oscarfed login --browser", p.issuer)
	}
	verifier := oauth2.GenerateVerifier()
	asked, err := p.config.DeviceAuth(p.with(ctx), oauth2.S256ChallengeOption(verifier))
	if err != nil {
		return Record{}, p.failed(ctx, err)
	}
	if asked.DeviceCode == "" || asked.UserCode == "" || !private(asked.VerificationURI) || asked.VerificationURIComplete != "" && !private(asked.VerificationURIComplete) {
		return Record{}, exit.Errorf(exit.Failed, "issuer %s: names no page to log in at by https, or no code", p.issuer)
	}
	asked.Interval = min(max(asked.Interval, 0), maxInterval) // 0 is the library's default
	if last := time.Now().Add(maxDeviceLogin); asked.Expiry.IsZero() || asked.Expiry.After(last) {
		asked.Expiry = last
	}
	tell(Prompt{URL: asked.VerificationURI, Code: asked.UserCode, Complete: asked.VerificationURIComplete, Until: asked.Expiry})
	got, err := p.awaitDevice(ctx, asked, verifier)
	if err != nil {
		return Record{}, err
	}
	return p.record(ctx, got, "")
}

// awaitDevice asks for the tokens until the person has logged in. An issuer that cannot be reached for
// a while is asked again (RFC 8628 3.5).
func (p *Provider) awaitDevice(ctx context.Context, asked *oauth2.DeviceAuthResponse, verifier string) (*oauth2.Token, error) {
	for {
		got, err := p.config.DeviceAccessToken(p.with(ctx), asked, oauth2.VerifierOption(verifier))
		if err == nil {
			return got, nil
		}
		e, answered := errors.AsType[*oauth2.RetrieveError](err)
		switch {
		case ctx.Err() == nil && !time.Now().Before(asked.Expiry), answered && e.ErrorCode == "expired_token":
			return nil, exit.Errorf(exit.NotAuthorised, "the code has expired before anybody logged in with it: oscarfed login gives another one")
		case answered && e.ErrorCode == "access_denied":
			return nil, exit.Errorf(exit.NotAuthorised, "the login was refused at %s", p.issuer)
		case ctx.Err() != nil, !away(err):
			return nil, p.failed(ctx, err, asked.DeviceCode, verifier)
		}
	}
}

// away says whether an issuer did not answer, or could not.
func away(err error) bool {
	if e, ok := errors.AsType[*oauth2.RetrieveError](err); ok {
		return e.Response.StatusCode >= http.StatusInternalServerError
	}
	_, unanswered := errors.AsType[*url.Error](err)
	return unanswered
}
