package pki

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"
)

// MaxRequest bounds a certificate request in bytes of PEM; one has about 400.
const MaxRequest = 8 << 10

// requestType is the PEM type of a PKCS #10 request.
const requestType = "CERTIFICATE REQUEST"

// Request is a certificate request that was signed with the key that it names: its maker has the
// private key.
type Request struct {
	// Name is the common name of its subject: what the signature covers besides the
	// key. It is no wish that anybody has to fulfil.
	Name string
	Key  crypto.PublicKey
	// Fingerprint is that of Key.
	Fingerprint string
}

// NewRequest makes a certificate request in PEM.
func NewRequest(key crypto.Signer, name string) ([]byte, error) {
	der, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{Subject: pkix.Name{CommonName: name}}, key)
	if err != nil {
		return nil, fmt.Errorf("make a certificate request: %w", err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: requestType, Bytes: der}), nil
}

// ParseRequest reads a certificate request from a source that is not trusted, and verifies its
// signature. Its key must be of the kind used here: keys of other kinds can be so large that
// looking at them takes seconds.
func ParseRequest(text []byte) (*Request, error) {
	if len(text) > MaxRequest {
		return nil, fmt.Errorf("a certificate request has at most %d bytes", MaxRequest)
	}
	block, rest := pem.Decode(text)
	if block == nil || block.Type != requestType || len(bytes.TrimSpace(rest)) > 0 {
		return nil, errors.New("a certificate request is one PEM block of type " + requestType)
	}
	csr, err := x509.ParseCertificateRequest(block.Bytes)
	if err != nil {
		return nil, errors.New("the certificate request cannot be read")
	}
	key, ok := csr.PublicKey.(*ecdsa.PublicKey)
	if !ok || key.Curve != elliptic.P256() {
		return nil, errors.New("the key of a certificate request is ECDSA on P-256")
	}
	if err := csr.CheckSignature(); err != nil {
		return nil, errors.New("the certificate request is not signed with its own key")
	}
	fingerprint, err := Fingerprint(key)
	if err != nil {
		return nil, err
	}
	return &Request{Name: csr.Subject.CommonName, Key: key, Fingerprint: fingerprint}, nil
}

// Fingerprint names a public key: sha256:<hex> of its PKIX form.
func Fingerprint(key crypto.PublicKey) (string, error) {
	der, err := x509.MarshalPKIXPublicKey(key)
	if err != nil {
		return "", fmt.Errorf("fingerprint of a key: %w", err)
	}
	sum := sha256.Sum256(der)
	return "sha256:" + hex.EncodeToString(sum[:]), nil
}
