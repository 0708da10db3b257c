package identity

import (
	"errors"
	"net/http"
)

// ErrUnauthenticated says that a request carries no credentials, or none that
// are accepted. It does not say which: that would help a caller that guesses.
var ErrUnauthenticated = errors.New("no accepted credentials")

// Authenticator finds the caller of a request. It answers ErrUnauthenticated
// (possibly wrapped) when the credentials are missing or refused; any other
// error means that they could not be checked, and the caller is not to blame.
// It must be safe for concurrent use, must not read the body, and must end when
// the request's context ends.
type Authenticator interface {
	Authenticate(r *http.Request) (Caller, error)
}
