package pki

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"github.com/oscarfed/oscarfed/internal/atomicfile"
)

// maxKeyFile bounds a file with a private key in bytes; one of ours has 241.
const maxKeyFile = 4096

// LoadOrCreateKey reads the private key in a file, or makes the file with a new one, for its owner
// alone. What it returns would survive the loss of power. Two processes that make the file at once
// have the same key.
func LoadOrCreateKey(path string) (*ecdsa.PrivateKey, error) {
	key, err := loadKey(path)
	if !errors.Is(err, fs.ErrNotExist) {
		return key, err
	}
	if key, err = NewKey(); err != nil {
		return nil, err
	}
	text, err := EncodeKey(key)
	if err != nil {
		return nil, err
	}
	err = atomicfile.Create(path, text, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return loadKey(path) // another process was faster
	}
	return key, err
}

// loadKey reads a private key of the kind used here: PKCS #8 in PEM. A file that
// others can read is refused.
func loadKey(path string) (*ecdsa.PrivateKey, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("key file: %w", err)
	}
	defer f.Close() //nolint:errcheck // it is only read
	info, err := f.Stat()
	if err != nil {
		return nil, fmt.Errorf("key file: %w", err)
	}
	if mode := info.Mode(); !mode.IsRegular() || mode.Perm()&0o077 != 0 {
		return nil, fmt.Errorf("key file %s has mode %v: it must be a file that only its owner can read; chmod 600", path, mode)
	}
	text, err := io.ReadAll(io.LimitReader(f, maxKeyFile+1))
	if err != nil {
		return nil, fmt.Errorf("key file: %w", err)
	}
	block, _ := pem.Decode(text)
	if len(text) > maxKeyFile || block == nil || block.Type != "PRIVATE KEY" {
		return nil, fmt.Errorf("key file %s holds no private key (PKCS #8 in PEM)", path)
	}
	parsed, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		return nil, fmt.Errorf("key file %s holds no private key that can be read", path)
	}
	key, ok := parsed.(*ecdsa.PrivateKey)
	if !ok || key.Curve != elliptic.P256() {
		return nil, fmt.Errorf("the key in %s is not ECDSA on P-256", path)
	}
	return key, nil
}
