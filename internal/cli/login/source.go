package login

import (
	"context"
	"errors"
	"io/fs"
	"sync"
	"time"

	"github.com/oscarfed/oscarfed/internal/atomicfile"
	"github.com/oscarfed/oscarfed/internal/cli/exit"
)

// margin is how long an access token must be good for at least when it is given out.
const margin = 30 * time.Second

// Source gives the access tokens of a login, and renews them. It is safe for concurrent use.
type Source struct {
	file File
	api  string
	now  func() time.Time

	mu  sync.Mutex
	has Record
}

// NewSource makes one for the login in a file, whose tokens go to one API; it reads nothing yet.
func NewSource(file File, api string) *Source { return &Source{file: file, api: api, now: time.Now} }

// Token gives an access token that is good for a while. refused is the one that the API has just
// refused, if it has: it is renewed before its time, since it may be revoked, or a clock be wrong.
func (s *Source) Token(ctx context.Context, refused string) (string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.good(refused) {
		return s.has.AccessToken, nil
	}
	if err := s.load(); err != nil {
		return "", err
	}
	if s.has.Agent != "" {
		return s.agent(ctx)
	}
	if s.good(refused) {
		return s.has.AccessToken, nil
	}
	if err := s.renew(ctx, refused); err != nil {
		return "", err
	}
	return s.has.AccessToken, nil
}

// good says whether the token in hand can be sent.
func (s *Source) good(refused string) bool {
	return s.has.AccessToken != "" && s.has.AccessToken != refused && s.now().Add(margin).Before(s.has.Expires)
}

// agent asks oidc-agent, which renews tokens by itself.
func (s *Source) agent(ctx context.Context) (string, error) {
	token, err := agentToken(ctx, s.has.Agent)
	if err != nil {
		return "", err
	}
	s.has.AccessToken, s.has.Expires = token, claimedExpiry(token)
	return token, nil
}

func (s *Source) load() (err error) {
	s.has, err = s.file.Load()
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return exit.Errorf(exit.NotAuthorised, "this context is logged out: oscarfed login")
	case err == nil && s.has.API != s.api:
		other := s.has.API
		s.has = Record{}
		return exit.Errorf(exit.NotAuthorised, "%s has a login for %q, which is not sent to %s: oscarfed login", s.file, other, s.api)
	}
	return err
}

// renew uses the refresh token, unless another process has done so meanwhile. Nothing interrupts it
// between the use of a token and the writing of its successor. While the issuer cannot be reached,
// a token that has not expired is used to its end.
func (s *Source) renew(ctx context.Context, refused string) error {
	unlock, err := s.file.lock(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	if err := s.load(); err != nil || s.good(refused) {
		return err
	}
	if s.has.RefreshToken == "" && s.has.Keyring == "" {
		return exit.Errorf(exit.NotAuthorised, "the login has expired (%s), and the issuer gave no refresh token: oscarfed login",
			s.has.Expires.UTC().Format(time.RFC3339))
	}
	renewed, err := s.exchange(ctx)
	if err == nil {
		s.has = renewed
		return nil
	}
	if exit.StatusOf(err) == exit.NotReachable && s.has.AccessToken != refused && s.now().Before(s.has.Expires) {
		return nil
	}
	return err
}

// exchange uses the refresh token, and writes what it was worth.
func (s *Source) exchange(ctx context.Context) (Record, error) {
	p, err := discover(ctx, s.has.Issuer, s.has.ClientID, s.now)
	if err != nil {
		return Record{}, err
	}
	defer p.Close()
	next, err := atomicfile.New(string(s.file)) // a folder that cannot be written to is noticed before the token is used
	if err != nil {
		return Record{}, err
	}
	former, err := s.has.Whole(ctx)
	if err != nil {
		return Record{}, errors.Join(err, next.Discard())
	}
	ctx = context.WithoutCancel(ctx)
	renewed, err := p.Renew(ctx, former)
	if err != nil {
		return Record{}, errors.Join(err, next.Discard())
	}
	// Before the file: a file without the token that the keyring has not got would be a lost login.
	renewed = renewed.again(ctx, former.RefreshToken)
	return renewed, put(next, renewed)
}
