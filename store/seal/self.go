package seal

import (
	"crypto/rand"
	"errors"

	"filippo.io/age"
	"golang.org/x/crypto/nacl/secretbox"
)

// selfType names, in an age envelope, the share of an identity that has sealed
// something to itself.
const selfType = "oscarfed/self"

const (
	nonceSize = 24
	// fileKeySize is that of the key that age makes for each envelope, in bytes.
	fileKeySize = 16
)

// self is whom an identity seals to when it is to open the envelope itself. An X25519
// share takes two multiplications to make and one to open; a secret that its maker
// has anyway needs none of them. The envelope's key is in a secretbox of NaCl, under a
// key that is derived from the identity, with a nonce of 192 random bits.
type self struct{ key [32]byte }

// Wrap implements age.Recipient.
func (s *self) Wrap(fileKey []byte) ([]*age.Stanza, error) {
	var nonce [nonceSize]byte
	if _, err := rand.Read(nonce[:]); err != nil {
		return nil, err
	}
	return []*age.Stanza{{Type: selfType, Body: secretbox.Seal(nonce[:], fileKey, &nonce, &s.key)}}, nil
}

// errShare says that a share is not as Wrap makes it.
var errShare = errors.New("the share has another length than it should")

// Unwrap implements age.Identity.
func (s *self) Unwrap(stanzas []*age.Stanza) ([]byte, error) {
	for _, stanza := range stanzas {
		if stanza.Type != selfType {
			continue
		}
		if len(stanza.Body) != nonceSize+fileKeySize+secretbox.Overhead {
			return nil, errShare
		}
		if key, ok := secretbox.Open(nil, stanza.Body[nonceSize:], (*[nonceSize]byte)(stanza.Body), &s.key); ok {
			return key, nil
		}
	}
	return nil, age.ErrIncorrectIdentity
}

// opener opens what an identity has sealed to itself, and else what anybody has.
type opener struct {
	self *self
	key  *age.X25519Identity
}

// Unwrap implements age.Identity.
func (o opener) Unwrap(stanzas []*age.Stanza) ([]byte, error) {
	key, err := o.self.Unwrap(stanzas)
	if errors.Is(err, age.ErrIncorrectIdentity) {
		return o.key.Unwrap(stanzas)
	}
	return key, err
}
