package identity

import (
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"net/http"
)

// Basic accepts the one administrator by HTTP Basic credentials, as an OSCAR
// Manager does. It keeps hashes, not the password.
type Basic struct {
	user, password [sha256.Size]byte
}

// NewBasic makes an authenticator for the administrator. An empty user or
// password is an error: it would let in every caller that sends an empty one.
func NewBasic(user, password string) (*Basic, error) {
	switch {
	case user == "":
		return nil, errors.New("the administrator's user name is empty")
	case password == "":
		return nil, errors.New("the administrator's password is empty")
	}
	return &Basic{user: sha256.Sum256([]byte(user)), password: sha256.Sum256([]byte(password))}, nil
}

// Authenticate implements Authenticator. Both parts are hashed and both are
// compared in constant time, so that neither the length nor the first wrong
// letter of either shows in the time that it takes.
func (b *Basic) Authenticate(r *http.Request) (Caller, error) {
	user, password, ok := r.BasicAuth()
	u, p := sha256.Sum256([]byte(user)), sha256.Sum256([]byte(password))
	same := subtle.ConstantTimeCompare(u[:], b.user[:]) & subtle.ConstantTimeCompare(p[:], b.password[:])
	if !ok || same != 1 {
		return Caller{}, ErrUnauthenticated
	}
	return Caller{Subject: Admin, Administrator: true}, nil
}
