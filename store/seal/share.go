package seal

import (
	"crypto/rand"
	"errors"

	"filippo.io/age"
	"golang.org/x/crypto/nacl/secretbox"
)

const (
	nonceSize = 24
	// fileKeySize is that of the key that age makes for each envelope, in bytes.
	fileKeySize = 16
	// boxSize is that of a share's body.
	boxSize = nonceSize + fileKeySize + secretbox.Overhead
)

// errShare says that a share is not as it is made here.
var errShare = errors.New("the share has another form than it should")

// key encrypts the keys of envelopes: a secretbox of NaCl, with a nonce of 192 random
// bits, of which no two are ever the same.
type key [32]byte

func (k *key) wrap(fileKey []byte) ([]byte, error) {
	var nonce [nonceSize]byte
	if _, err := rand.Read(nonce[:]); err != nil {
		return nil, err
	}
	return secretbox.Seal(nonce[:], fileKey, &nonce, (*[32]byte)(k)), nil
}

func (k *key) unwrap(body []byte) ([]byte, error) {
	if len(body) != boxSize {
		return nil, errShare
	}
	fileKey, ok := secretbox.Open(nil, body[nonceSize:], (*[nonceSize]byte)(body), (*[32]byte)(k))
	if !ok {
		return nil, age.ErrIncorrectIdentity
	}
	return fileKey, nil
}

// selfType names, in an age envelope, the share of an identity that has sealed
// something to itself.
const selfType = "oscarfed/self"

// self is what an identity seals to when it is to open the envelope itself: the key is derived
// from the identity.
type self struct{ key key }

// Wrap implements age.Recipient.
func (s *self) Wrap(fileKey []byte) ([]*age.Stanza, error) {
	body, err := s.key.wrap(fileKey)
	return []*age.Stanza{{Type: selfType, Body: body}}, err
}

// opener opens the shares of an identity, those first that cost least.
type opener struct{ *Identity }

// Unwrap implements age.Identity.
func (o opener) Unwrap(stanzas []*age.Stanza) ([]byte, error) {
	for _, s := range stanzas {
		var fileKey []byte
		err := age.ErrIncorrectIdentity
		switch s.Type {
		case selfType:
			fileKey, err = o.own.key.unwrap(s.Body)
		case sharedType:
			fileKey, err = o.agreed.unwrap(s)
		}
		if !errors.Is(err, age.ErrIncorrectIdentity) {
			return fileKey, err
		}
	}
	return o.key.Unwrap(stanzas)
}
