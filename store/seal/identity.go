package seal

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"

	"filippo.io/age"

	"github.com/oscarfed/oscarfed/internal/atomicfile"
)

// maxIdentityFile is far more than a key and its comments need, in bytes.
const maxIdentityFile = 4096

// Identity is a private X25519 key. It prints as its public recipient.
type Identity struct {
	key *age.X25519Identity
	// own is for what it seals to itself, agreed for what others seal to it by their
	// agreements, and public its recipient.
	own    *self
	agreed *agreed
	public string
}

func newIdentity(private *age.X25519Identity) (*Identity, error) {
	i := &Identity{key: private, public: private.Recipient().String()}
	i.own = &self{key(i.Derive("envelopes to itself"))}
	var err error
	i.agreed, err = newAgreed(private)
	return i, err
}

// Generate makes a new identity.
func Generate() (*Identity, error) {
	private, err := age.GenerateX25519Identity()
	if err != nil {
		return nil, fmt.Errorf("generate identity: %w", err)
	}
	return newIdentity(private)
}

// LoadOrCreate reads the identity in a file, in the format of age-keygen, or
// makes the file with a new one, readable by its owner alone. A file that others
// can read is refused.
func LoadOrCreate(path string) (*Identity, error) {
	id, err := Load(path)
	if !errors.Is(err, fs.ErrNotExist) {
		return id, err
	}
	if id, err = Generate(); err != nil {
		return nil, err
	}
	text := fmt.Sprintf("# recipient: %s\n%s\n", id.Recipient(), id.key.String())
	err = atomicfile.Create(path, []byte(text), 0o600)
	if errors.Is(err, fs.ErrExist) {
		return Load(path) // another process was faster; its identity is the one
	}
	if err != nil {
		return nil, fmt.Errorf("identity file: %w", err)
	}
	return id, nil
}

// Load reads the identity in a file, in the format of age-keygen. A file that others
// can read is refused; see private.
func Load(path string) (*Identity, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("identity file: %w", err)
	}
	defer f.Close() //nolint:errcheck // it is only read
	info, err := f.Stat()
	if err != nil {
		return nil, fmt.Errorf("identity file: %w", err)
	}
	if !private(info, os.Geteuid()) {
		return nil, fmt.Errorf("identity file %s has mode %v: it must be a file that only its owner can read; chmod 600", path, info.Mode())
	}
	data, err := io.ReadAll(io.LimitReader(f, maxIdentityFile+1))
	if err != nil {
		return nil, fmt.Errorf("identity file: %w", err)
	}
	if len(data) > maxIdentityFile {
		return nil, fmt.Errorf("identity file %s is larger than %d bytes", path, maxIdentityFile)
	}
	id, err := Parse(data)
	if err != nil {
		return nil, fmt.Errorf("identity file %s %w", path, err)
	}
	return id, nil
}

// Parse reads an identity in the format of age-keygen. Its errors begin with a verb.
func Parse(text []byte) (*Identity, error) {
	for line := range bytes.Lines(text) {
		line = bytes.TrimSpace(line)
		if len(line) == 0 || line[0] == '#' {
			continue
		}
		private, err := age.ParseX25519Identity(string(line))
		if err != nil {
			return nil, errors.New("holds no age X25519 identity") // the parser's error may quote the key
		}
		return newIdentity(private)
	}
	return nil, errors.New("is empty")
}

// Recipient is the public key to which others seal.
func (i Identity) Recipient() string { return i.public }

// ValidRecipient says whether text is a public key that can be sealed to.
func ValidRecipient(text string) bool {
	_, err := age.ParseX25519Recipient(text)
	return err == nil
}

// Derive makes a 32-byte key for another use: HMAC-SHA256 of the label under the
// private key. Different labels give unrelated keys, the same label always the
// same one.
func (i *Identity) Derive(label string) []byte {
	mac := hmac.New(sha256.New, []byte(i.key.String()))
	mac.Write([]byte("oscarfed/" + label)) // a hash takes everything
	return mac.Sum(nil)
}

// String is the public recipient, so that no print shows the private key.
func (i Identity) String() string { return i.Recipient() }

// GoString is the public recipient.
func (i Identity) GoString() string { return i.Recipient() }

// LogValue is the public recipient.
func (i Identity) LogValue() slog.Value { return slog.StringValue(i.Recipient()) }
