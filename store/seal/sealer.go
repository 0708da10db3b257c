package seal

import (
	"crypto/ecdh"
	"crypto/hpke"
	"encoding/base64"
	"fmt"
	"sync"
	"time"

	"filippo.io/age"
)

// sharedType names the share of a recipient that a key was agreed on with before.
const sharedType = "oscarfed/shared"

const (
	// agreementLasts is for how long a Sealer uses the key that it has agreed on with a
	// recipient.
	agreementLasts = time.Hour
	// maxAgreements bounds how many are remembered. One more forgets the others.
	maxAgreements = 10_000
	// agreementInfo and agreementLabel are HPKE's info and exporter context.
	agreementInfo  = "oscarfed envelopes"
	agreementLabel = "key of shares"
)

// Recipient is what an envelope is sealed to.
type Recipient struct {
	// Key is his public key, an age recipient.
	Key string
	// Shared says that he opens shares of the type oscarfed/shared.
	Shared bool
}

// Sealer seals many envelopes to the same recipients. Where age makes an X25519 key for
// each share, it agrees once an hour on a key with each recipient: the export of HPKE
// (RFC 9180, base mode, DHKEM(X25519, HKDF-SHA256)) to the recipient's key. It names
// the encapsulated key in each share, and the recipient derives from it the same. What
// the Sealer's own identity is to open takes no key agreement at all. It is safe for
// concurrent use.
type Sealer struct {
	own *Identity
	now func() time.Time

	mu sync.Mutex
	// with has the agreements, by the public key of the recipient.
	with map[string]*agreement
}

// Sealer makes one that seals for this identity, by a clock.
func (i *Identity) Sealer(now func() time.Time) *Sealer {
	return &Sealer{own: i, now: now, with: map[string]*agreement{}}
}

// Own is the Sealer's own identity, as a recipient.
func (s *Sealer) Own() Recipient { return Recipient{Key: s.own.Recipient()} }

// Seal encrypts a payload with its header to all recipients, and returns the age
// envelope in base64.
func (s *Sealer) Seal(h Header, payload []byte, recipients ...Recipient) (string, error) {
	to := make([]age.Recipient, len(recipients))
	for i, r := range recipients {
		var err error
		switch {
		case r.Key == s.own.Recipient():
			to[i] = s.own.own
		case r.Shared:
			to[i], err = s.agreedWith(r.Key)
		default:
			to[i], err = age.ParseX25519Recipient(r.Key)
		}
		if err != nil {
			return "", fmt.Errorf("seal %s: recipient %q: %w", h.Purpose, r.Key, err)
		}
	}
	return sealTo(h, payload, to)
}

// agreement is a key that a Sealer has agreed on with one recipient.
type agreement struct {
	// name is the encapsulated key, as a share names it.
	name  string
	key   key
	until time.Time
}

// Wrap implements age.Recipient.
func (a *agreement) Wrap(fileKey []byte) ([]*age.Stanza, error) {
	body, err := a.key.wrap(fileKey)
	return []*age.Stanza{{Type: sharedType, Args: []string{a.name}, Body: body}}, err
}

// agreedWith gives the agreement with a recipient, made at need.
func (s *Sealer) agreedWith(recipient string) (*agreement, error) {
	now := s.now()
	s.mu.Lock()
	a := s.with[recipient]
	s.mu.Unlock()
	if a != nil && now.Before(a.until) && a.until.Sub(now) <= agreementLasts {
		return a, nil
	}
	a, err := agree(recipient) // beside others: it takes its time
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.with) >= maxAgreements {
		clear(s.with)
	}
	a.until = now.Add(agreementLasts)
	s.with[recipient] = a
	return a, nil
}

func agree(recipient string) (*agreement, error) {
	if _, err := age.ParseX25519Recipient(recipient); err != nil {
		return nil, err
	}
	point, err := ecdh.X25519().NewPublicKey(rawKey(recipient))
	if err != nil {
		return nil, err
	}
	public, err := hpke.NewDHKEMPublicKey(point)
	if err != nil {
		return nil, err
	}
	encapsulated, sender, err := hpke.NewSender(public, hpke.HKDFSHA256(), hpke.ExportOnly(), []byte(agreementInfo))
	if err != nil {
		return nil, err
	}
	exported, err := sender.Export(agreementLabel, len(key{}))
	if err != nil {
		return nil, err
	}
	return &agreement{name: base64.RawStdEncoding.EncodeToString(encapsulated), key: key(exported)}, nil
}

// maxAgreed is how many agreements of others an identity remembers: each instance of
// the control plane makes one an hour. One more forgets the others.
const maxAgreed = 256

// agreed are the keys that others have agreed on with an identity.
type agreed struct {
	private hpke.PrivateKey

	mu sync.Mutex
	// by has the keys by the names of their agreements.
	by map[string]*key
}

func newAgreed(identity *age.X25519Identity) (*agreed, error) {
	scalar, err := ecdh.X25519().NewPrivateKey(rawKey(identity.String()))
	if err != nil {
		return nil, err
	}
	private, err := hpke.NewDHKEMPrivateKey(scalar)
	if err != nil {
		return nil, err
	}
	return &agreed{private: private, by: map[string]*key{}}, nil
}

// unwrap opens one share. That of another identity is age.ErrIncorrectIdentity.
func (a *agreed) unwrap(s *age.Stanza) ([]byte, error) {
	if len(s.Args) != 1 || len(s.Body) != boxSize {
		return nil, errShare
	}
	a.mu.Lock()
	k := a.by[s.Args[0]]
	a.mu.Unlock()
	if k != nil {
		return k.unwrap(s.Body)
	}
	encapsulated, err := base64.RawStdEncoding.Strict().DecodeString(s.Args[0])
	if err != nil {
		return nil, errShare
	}
	recipient, err := hpke.NewRecipient(encapsulated, a.private, hpke.HKDFSHA256(), hpke.ExportOnly(), []byte(agreementInfo))
	if err != nil {
		return nil, errShare
	}
	exported, err := recipient.Export(agreementLabel, len(key{}))
	if err != nil {
		return nil, err
	}
	k = (*key)(exported)
	fileKey, err := k.unwrap(s.Body)
	if err != nil {
		return nil, err // it is not to this identity: nothing to remember
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.by) >= maxAgreed {
		clear(a.by)
	}
	a.by[s.Args[0]] = k
	return fileKey, nil
}
