package seal

import (
	"crypto/rand"
	"encoding/base64"
	"errors"
	"log/slog"
	"time"

	"filippo.io/age"
)

// Key is a random key of 256 bits that opens what is sealed to it: one envelope for many, each
// of whom is given the key in an envelope of its own. It does not print.
type Key struct{ self }

// NewKey makes a Key.
func NewKey() Key {
	var k Key
	_, _ = rand.Read(k.key[:]) // it never fails
	return k
}

// errKey does not quote what was read: it may be a key.
var errKey = errors.New("it is not the text of a key")

// ParseKey reads what Secret wrote.
func ParseKey(secret string) (Key, error) {
	raw, err := base64.RawURLEncoding.Strict().DecodeString(secret)
	if err != nil || len(raw) != len(key{}) {
		return Key{}, errKey
	}
	return Key{self{key(raw)}}, nil
}

// Secret is the key as text, to be sealed.
func (k Key) Secret() string { return base64.RawURLEncoding.EncodeToString(k.key[:]) }

// String, GoString and LogValue keep it from being printed.
func (Key) String() string { return "a key" }

// GoString is String.
func (k Key) GoString() string { return k.String() }

// LogValue is String.
func (k Key) LogValue() slog.Value { return slog.StringValue(k.String()) }

// Seal encrypts a payload with its header to the key.
func (k Key) Seal(h Header, payload []byte) (string, error) {
	return sealTo(h, payload, []age.Recipient{&k.self})
}

// Open is Identity.Open of what was sealed to the key.
func (k Key) Open(sealed string, want Header, now time.Time) ([]byte, error) {
	return open(sealed, want, now, k, "this key")
}

// Unwrap implements age.Identity.
func (k Key) Unwrap(stanzas []*age.Stanza) ([]byte, error) {
	for _, s := range stanzas {
		if s.Type != selfType {
			continue
		}
		if fileKey, err := k.key.unwrap(s.Body); !errors.Is(err, age.ErrIncorrectIdentity) {
			return fileKey, err
		}
	}
	return nil, age.ErrIncorrectIdentity
}
