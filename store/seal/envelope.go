package seal

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"filippo.io/age"
)

// MaxPayload is the most bytes that one envelope holds: sealed and in base64 it
// still fits into one etcd request beside its record.
const MaxPayload = 512 << 10

const (
	// maxHeader bounds the header's JSON.
	maxHeader = 4 << 10
	// maxSealed bounds what Open looks at: payload, header, and age's own share
	// for many recipients, in base64.
	maxSealed = (MaxPayload + maxHeader + 64<<10) / 3 * 4
)

// The errors of Open and Seal. None tells anything of the payload.
var (
	// ErrUndecryptable says that the envelope is damaged, not an envelope, or not
	// sealed to this identity.
	ErrUndecryptable = errors.New("envelope cannot be opened")
	// ErrMismatch says that the envelope was sealed for something else.
	ErrMismatch = errors.New("envelope is for something else")
	// ErrStale says that the envelope belongs to an older generation.
	ErrStale = errors.New("envelope is of an older generation")
	// ErrExpired says that the envelope's time is over.
	ErrExpired = errors.New("envelope has expired")
	// ErrTooLarge says that a payload is over MaxPayload, or its header too long.
	ErrTooLarge = errors.New("too large to be sealed")
)

// Header says what an envelope is for. It is encrypted with the payload.
type Header struct {
	// Purpose names the use, such as PurposeSpec.
	Purpose string `json:"purpose"`
	// Cluster is where it is used, and UID the life of the replica or federation
	// that it belongs to.
	Cluster string `json:"cluster"`
	UID     string `json:"uid"`
	// Generation that the payload was made for.
	Generation int64 `json:"generation"`
	// Expires is when it is of no more use; zero for never.
	Expires time.Time `json:"expires,omitzero"`
}

// wireHeader is the first line of the plaintext.
type wireHeader struct {
	V int `json:"v"`
	Header
}

const version = 1

// envelopeBegins is how each envelope begins: "age-encryption.org/v1" in base64.
const envelopeBegins = "YWdlLWVuY3J5cHRpb24ub3JnL3Yx"

// HasEnvelope says whether a text is, or quotes, an envelope as Seal makes them.
func HasEnvelope(text string) bool { return strings.Contains(text, envelopeBegins) }

// Seal encrypts a payload with its header to all recipients, and returns the age envelope in
// base64. A caller that seals often to the same ones uses a Sealer.
func Seal(h Header, payload []byte, recipients ...string) (string, error) {
	to, err := parse(recipients)
	if err != nil {
		return "", fmt.Errorf("seal %s: %w", h.Purpose, err)
	}
	return sealTo(h, payload, to)
}

func parse(recipients []string) ([]age.Recipient, error) {
	to := make([]age.Recipient, len(recipients))
	for i, r := range recipients {
		var err error
		if to[i], err = age.ParseX25519Recipient(r); err != nil {
			return nil, fmt.Errorf("recipient %q: %w", r, err)
		}
	}
	return to, nil
}

func sealTo(h Header, payload []byte, to []age.Recipient) (string, error) {
	if len(payload) > MaxPayload {
		return "", fmt.Errorf("seal %s: %w: %d bytes, at most %d are possible", h.Purpose, ErrTooLarge, len(payload), MaxPayload)
	}
	head, err := json.Marshal(wireHeader{V: version, Header: h})
	if err != nil {
		return "", fmt.Errorf("seal %s: %w", h.Purpose, err)
	}
	if len(head) > maxHeader {
		return "", fmt.Errorf("seal: %w: its header has %d bytes, at most %d are possible", ErrTooLarge, len(head), maxHeader)
	}
	var out bytes.Buffer
	enc := base64.NewEncoder(base64.StdEncoding, &out)
	w, err := age.Encrypt(enc, to...)
	if err != nil {
		return "", fmt.Errorf("seal %s: %w", h.Purpose, err)
	}
	for _, part := range [][]byte{head, {'\n'}, payload} {
		if _, err := w.Write(part); err != nil {
			return "", fmt.Errorf("seal %s: %w", h.Purpose, err)
		}
	}
	if err := errors.Join(w.Close(), enc.Close()); err != nil {
		return "", fmt.Errorf("seal %s: %w", h.Purpose, err)
	}
	return out.String(), nil
}

// Open decrypts an envelope that was sealed to this identity for what want says:
// purpose, cluster and uid must be equal, and the generation not older. The
// Expires of want is not looked at; the envelope's own is, against now.
func (i *Identity) Open(sealed string, want Header, now time.Time) ([]byte, error) {
	return open(sealed, want, now, opener{i}, i.Recipient())
}

// open decrypts an envelope as who, whose name is told in errors.
func open(sealed string, want Header, now time.Time, who age.Identity, name string) ([]byte, error) {
	if len(sealed) > maxSealed {
		return nil, fmt.Errorf("open %s: %w: it has %d bytes, at most %d are possible", want.Purpose, ErrUndecryptable, len(sealed), maxSealed)
	}
	raw, err := base64.StdEncoding.DecodeString(sealed)
	if err != nil {
		return nil, fmt.Errorf("open %s: %w: it is not base64", want.Purpose, ErrUndecryptable)
	}
	// age's own errors quote what they read, which may be a secret that was not sealed.
	r, size, err := age.DecryptReaderAt(bytes.NewReader(raw), int64(len(raw)), who)
	if _, ok := errors.AsType[*age.NoIdentityMatchError](err); ok {
		return nil, fmt.Errorf("open %s: %w: it is not sealed to %s", want.Purpose, ErrUndecryptable, name)
	}
	if err != nil {
		return nil, fmt.Errorf("open %s: %w: it is no age envelope, or damaged", want.Purpose, ErrUndecryptable)
	}
	// In one piece: each call of ReadAt takes a buffer of 64 KiB, and age's stream two.
	plain := make([]byte, size)
	if _, err := r.ReadAt(plain, 0); err != nil && err != io.EOF {
		return nil, fmt.Errorf("open %s: %w: it is damaged", want.Purpose, ErrUndecryptable)
	}
	head, payload, ok := bytes.Cut(plain, []byte{'\n'})
	var got wireHeader
	// The decoder's error could quote what it read.
	if !ok || json.Unmarshal(head, &got) != nil || got.V != version {
		return nil, fmt.Errorf("open %s: %w: it has no header of version %d", want.Purpose, ErrUndecryptable, version)
	}
	if err := got.check(want, now); err != nil {
		return nil, fmt.Errorf("open %s: %w", want.Purpose, err)
	}
	return payload, nil
}

func (h Header) check(want Header, now time.Time) error {
	switch {
	case h.Purpose != want.Purpose || h.Cluster != want.Cluster || h.UID != want.UID:
		return fmt.Errorf("%w: purpose %q, cluster %q, uid %q; wanted cluster %q, uid %q",
			ErrMismatch, h.Purpose, h.Cluster, h.UID, want.Cluster, want.UID)
	case h.Generation < want.Generation:
		return fmt.Errorf("%w: %d, wanted %d", ErrStale, h.Generation, want.Generation)
	case !h.Expires.IsZero() && !now.Before(h.Expires):
		return fmt.Errorf("%w at %s", ErrExpired, h.Expires.UTC().Format(time.RFC3339))
	}
	return nil
}
