package storetest

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// Authority signs certificates for a test, for 127.0.0.1 and an address of its own.
type Authority struct {
	t    testing.TB
	dir  string
	cert *x509.Certificate
	key  crypto.Signer
	// CAFile holds the authority's own certificate.
	CAFile string
	// Address is a loopback address that no other test has. A port that was free there stays free: connections
	// begin at 127.0.0.1, and take their ports there.
	Address string
}

// NewAuthority makes an authority with files in a temporary folder.
func NewAuthority(t testing.TB) *Authority {
	t.Helper()
	var own [3]byte
	_, _ = rand.Read(own[:]) // it never fails
	a := &Authority{t: t, dir: t.TempDir(), Address: net.IPv4(127, own[0]/2+1, own[1], own[2]/2+1).String()}
	a.CAFile = filepath.Join(a.dir, "ca.crt")
	template := &x509.Certificate{
		Subject: pkix.Name{CommonName: "test authority"}, IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageCertSign,
	}
	a.key = a.newKey()
	a.cert = a.sign(template, template, a.key, a.key, a.CAFile)
	return a
}

// Issue writes a certificate with a common name, for servers and clients, and
// its key, and returns their files. The same name again replaces the files.
func (a *Authority) Issue(commonName string) (certFile, keyFile string) {
	a.t.Helper()
	certFile, keyFile = filepath.Join(a.dir, commonName+".crt"), filepath.Join(a.dir, commonName+".key")
	key := a.newKey()
	a.sign(&x509.Certificate{
		Subject:     pkix.Name{CommonName: commonName},
		KeyUsage:    x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1), net.ParseIP(a.Address)},
	}, a.cert, key, a.key, certFile)
	der, err := x509.MarshalPKCS8PrivateKey(key)
	a.check(err)
	a.write(keyFile, "PRIVATE KEY", der)
	return certFile, keyFile
}

func (a *Authority) newKey() crypto.Signer {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	a.check(err)
	return key
}

func (a *Authority) sign(template, parent *x509.Certificate, key, signer crypto.Signer, file string) *x509.Certificate {
	serial, err := rand.Int(rand.Reader, big.NewInt(1<<62))
	a.check(err)
	template.SerialNumber = serial
	template.NotBefore, template.NotAfter = time.Now().Add(-time.Hour), time.Now().Add(time.Hour)
	der, err := x509.CreateCertificate(rand.Reader, template, parent, key.Public(), signer)
	a.check(err)
	a.write(file, "CERTIFICATE", der)
	cert, err := x509.ParseCertificate(der)
	a.check(err)
	return cert
}

func (a *Authority) write(file, kind string, der []byte) {
	a.check(os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600))
}

func (a *Authority) check(err error) {
	a.t.Helper()
	if err != nil {
		a.t.Fatal(err)
	}
}
