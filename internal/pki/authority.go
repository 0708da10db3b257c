package pki

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"

	"github.com/oscarfed/oscarfed/internal/atomicfile"
)

// Lives of certificates. A client's is short, since nothing revokes it before its
// end but the removal of its rights.
const (
	AuthorityLife = 10 * 365 * 24 * time.Hour
	// Skew of clocks that a new certificate tolerates: it is valid from that much earlier. A syncer of 0.1.0
	// renews after two thirds of a life that begins then, so it is a small part of 24 hours.
	Skew = 2 * time.Hour
)

// Life is how long a certificate of an authority was valid when it was signed.
func Life(cert *x509.Certificate) time.Duration { return cert.NotAfter.Sub(cert.NotBefore) - Skew }

// Authority signs certificates.
type Authority struct {
	cert *x509.Certificate
	key  crypto.Signer
	pem  []byte
	now  func() time.Time
}

// Names of an authority's files in its directory.
const (
	AuthorityCertFile = "ca.crt"
	authorityKeyFile  = "ca.key"
)

// LoadOrCreate reads the authority of a directory, or makes one there: ca.crt, and
// ca.key for its owner alone. The key is written first and the certificate last, so
// that a start that was cut off between is done again. Two processes that make it at
// once have the same one.
func LoadOrCreate(dir, name string, now func() time.Time) (*Authority, error) {
	_, err := os.Stat(filepath.Join(dir, AuthorityCertFile))
	if errors.Is(err, os.ErrNotExist) {
		err = create(dir, name, now())
		if err != nil && !errors.Is(err, os.ErrExist) {
			return nil, fmt.Errorf("make an authority in %s: %w", dir, err)
		}
	}
	return LoadDir(dir, now)
}

// Load reads an authority's certificate and key. What may not sign is refused.
func Load(certFile, keyFile string, now func() time.Time) (*Authority, error) {
	pair, err := tls.LoadX509KeyPair(certFile, keyFile)
	if err != nil {
		return nil, fmt.Errorf("authority: %w", err)
	}
	signer, ok := pair.PrivateKey.(crypto.Signer)
	switch {
	case !ok:
		return nil, fmt.Errorf("authority: the key in %s cannot sign", keyFile)
	case !pair.Leaf.IsCA || !pair.Leaf.BasicConstraintsValid || pair.Leaf.KeyUsage&x509.KeyUsageCertSign == 0:
		return nil, fmt.Errorf("authority: the certificate in %s may not sign others", certFile)
	}
	a := &Authority{cert: pair.Leaf, key: signer, pem: encodeCert(pair.Leaf.Raw), now: now}
	if err := a.ended(now()); err != nil {
		return nil, fmt.Errorf("%s: %w", certFile, err)
	}
	return a, nil
}

// ended says that the authority's own certificate is over: what it signs is of no use.
func (a *Authority) ended(now time.Time) error {
	if now.Before(a.cert.NotAfter) {
		return nil
	}
	return fmt.Errorf("authority: its certificate ended on %s", a.cert.NotAfter.UTC().Format(time.DateOnly))
}

// create makes the certificate of the key that is there, or of a new one. The error is os.ErrExist
// when another process was faster.
func create(dir, name string, now time.Time) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	key, err := LoadOrCreateKey(filepath.Join(dir, authorityKeyFile))
	if err != nil {
		return err
	}
	serial, err := newSerial()
	if err != nil {
		return err
	}
	template := &x509.Certificate{
		SerialNumber: serial, Subject: pkix.Name{CommonName: name},
		NotBefore: now.Add(-Skew), NotAfter: now.Add(AuthorityLife),
		IsCA: true, BasicConstraintsValid: true, MaxPathLenZero: true,
		KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageCRLSign,
	}
	cert, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return err
	}
	return atomicfile.Create(filepath.Join(dir, AuthorityCertFile), encodeCert(cert), 0o644)
}

// CertPEM is the authority's certificate, to verify others with.
func (a *Authority) CertPEM() []byte { return a.pem }

// Pool trusts this authority alone.
func (a *Authority) Pool() *x509.CertPool {
	pool := x509.NewCertPool()
	pool.AddCert(a.cert)
	return pool
}

// Subject is the identity that a certificate is for.
type Subject struct {
	// Name becomes the common name: etcd's user. Empty for a server, which must not
	// be taken for a user.
	Name string
	// Hosts are DNS names and IP addresses of a server.
	Hosts []string
	Life  time.Duration
}

// Sign makes a certificate in PEM for a public key. One with hosts is a server's,
// which may also be a client of its peers; any other is a client's. An authority that has ended signs nothing.
func (a *Authority) Sign(key crypto.PublicKey, s Subject) ([]byte, error) {
	serial, err := newSerial()
	if err != nil {
		return nil, err
	}
	now := a.now()
	if err := a.ended(now); err != nil {
		return nil, err
	}
	end := now.Add(s.Life)
	if end.After(a.cert.NotAfter) {
		end = a.cert.NotAfter // the authority's own certificate ends then
	}
	template := &x509.Certificate{
		SerialNumber: serial, Subject: pkix.Name{CommonName: s.Name},
		NotBefore: now.Add(-Skew), NotAfter: end,
		KeyUsage: x509.KeyUsageDigitalSignature, BasicConstraintsValid: true,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}
	if len(s.Hosts) > 0 {
		template.ExtKeyUsage = append(template.ExtKeyUsage, x509.ExtKeyUsageServerAuth)
	}
	for _, host := range s.Hosts {
		if ip := net.ParseIP(host); ip != nil {
			template.IPAddresses = append(template.IPAddresses, ip)
			continue
		}
		template.DNSNames = append(template.DNSNames, host)
	}
	cert, err := x509.CreateCertificate(rand.Reader, template, a.cert, key, a.key)
	if err != nil {
		return nil, fmt.Errorf("sign a certificate: %w", err)
	}
	return encodeCert(cert), nil
}

// Issue makes a key and its certificate, both in PEM.
func (a *Authority) Issue(s Subject) (certPEM, keyPEM []byte, err error) {
	key, err := NewKey()
	if err != nil {
		return nil, nil, err
	}
	if certPEM, err = a.Sign(key.Public(), s); err != nil {
		return nil, nil, err
	}
	keyPEM, err = EncodeKey(key)
	return certPEM, keyPEM, err
}

// NewKey makes a private key of the kind used here: ECDSA P-256.
func NewKey() (*ecdsa.PrivateKey, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("make a key: %w", err)
	}
	return key, nil
}

// EncodeKey writes a private key as PKCS #8 in PEM.
func EncodeKey(key *ecdsa.PrivateKey) ([]byte, error) {
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, fmt.Errorf("encode a key: %w", err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}), nil
}

func encodeCert(der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
}

func newSerial() (*big.Int, error) {
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127))
	if err != nil {
		return nil, fmt.Errorf("make a serial number: %w", err)
	}
	return serial, nil
}

// LoadDir reads the authority that LoadOrCreate made in a directory.
func LoadDir(dir string, now func() time.Time) (*Authority, error) {
	return Load(filepath.Join(dir, AuthorityCertFile), filepath.Join(dir, authorityKeyFile), now)
}

// Files are those of the authority's directory, by their names, the key among them.
func (a *Authority) Files() (map[string][]byte, error) {
	der, err := x509.MarshalPKCS8PrivateKey(a.key)
	if err != nil {
		return nil, fmt.Errorf("authority: %w", err)
	}
	return map[string][]byte{AuthorityCertFile: a.pem, authorityKeyFile: pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})}, nil
}

// Place makes a directory with an authority of its Files. The error is os.ErrExist when the directory has
// another one.
func Place(dir string, files map[string][]byte) error {
	cert, key := files[AuthorityCertFile], files[authorityKeyFile]
	if _, err := tls.X509KeyPair(cert, key); err != nil {
		return fmt.Errorf("authority: %w", err)
	}
	had, err := os.ReadFile(filepath.Join(dir, AuthorityCertFile))
	if err == nil && !bytes.Equal(had, cert) {
		return os.ErrExist
	}
	if !errors.Is(err, os.ErrNotExist) {
		return err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	// The certificate, which says that there is an authority, comes last.
	if err := atomicfile.Write(filepath.Join(dir, authorityKeyFile), key, 0o600); err != nil {
		return err
	}
	return atomicfile.Write(filepath.Join(dir, AuthorityCertFile), cert, 0o644)
}

// Derive makes a secret of 32 bytes for a purpose from the authority's key: every process with the
// authority derives the same, and no other can.
func (a *Authority) Derive(purpose string) ([]byte, error) {
	der, err := x509.MarshalPKCS8PrivateKey(a.key)
	if err != nil {
		return nil, fmt.Errorf("derive a secret: %w", err)
	}
	return hkdf.Key(sha256.New, der, nil, "oscarfed: "+purpose, sha256.Size)
}
