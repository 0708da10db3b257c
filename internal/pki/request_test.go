package pki_test

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"strings"
	"testing"

	"github.com/oscarfed/oscarfed/internal/pki"
)

func request(t testing.TB, key crypto.Signer) []byte {
	t.Helper()
	data, err := pki.NewRequest(key, "a-challenge")
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func must[T any](v T, err error) func(testing.TB) T {
	return func(t testing.TB) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

func TestParseRequest(t *testing.T) {
	key := must(pki.NewKey())(t)
	good := request(t, key)
	got, err := pki.ParseRequest(good)
	if err != nil || !key.PublicKey.Equal(got.Key) || got.Name != "a-challenge" || got.Fingerprint != must(pki.Fingerprint(key.Public()))(t) {
		t.Fatalf("got %v, %v", got, err)
	}

	block, _ := pem.Decode(good)
	forged := append([]byte(nil), block.Bytes...)
	forged[len(forged)-1] ^= 1
	p384 := must(ecdsa.GenerateKey(elliptic.P384(), rand.Reader))(t)
	rsaKey := must(rsa.GenerateKey(rand.Reader, 2048))(t)
	_, ed, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	der := func(kind string, b []byte) []byte { return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: b}) }
	for name, data := range map[string][]byte{
		"forged signature": der("CERTIFICATE REQUEST", forged),
		"another block":    der("CERTIFICATE", block.Bytes),
		"two requests":     append(append([]byte(nil), good...), good...),
		"RSA":              request(t, rsaKey),
		"P-384":            request(t, p384),
		"Ed25519":          request(t, ed),
		"empty":            nil,
		"text":             []byte("hello"),
		"too large":        append(good, []byte(strings.Repeat("\n", pki.MaxRequest))...),
		"cut off":          der("CERTIFICATE REQUEST", block.Bytes[:40]),
	} {
		if _, err := pki.ParseRequest(data); err == nil {
			t.Errorf("%s was accepted", name)
		}
	}
}

// A request cannot choose its name, its hosts or its powers.
func TestSignIgnoresWhatTheRequestAsksFor(t *testing.T) {
	key := must(pki.NewKey())(t)
	der := must(x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{
		Subject: pkix.Name{CommonName: "root"}, DNSNames: []string{"etcd.example.org"},
		ExtraExtensions: []pkix.Extension{{Id: []int{2, 5, 29, 19}, Critical: true, Value: []byte{0x30, 0x03, 0x01, 0x01, 0xff}}},
	}, key))(t)
	public := must(pki.ParseRequest(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der})))(t)
	cert := parse(t, must(authority(t).Sign(public.Key, pki.Subject{Name: "cluster-a", Life: 1e9}))(t))
	if cert.Subject.CommonName != "cluster-a" || len(cert.DNSNames) > 0 || cert.IsCA {
		t.Errorf("got %v, %v, CA %v", cert.Subject, cert.DNSNames, cert.IsCA)
	}
}

func TestFingerprint(t *testing.T) {
	a, b := must(pki.NewKey())(t), must(pki.NewKey())(t)
	fa, fb := must(pki.Fingerprint(a.Public()))(t), must(pki.Fingerprint(b.Public()))(t)
	if fa == fb || fa != must(pki.Fingerprint(a.Public()))(t) || !strings.HasPrefix(fa, "sha256:") || len(fa) != 7+64 {
		t.Errorf("got %s and %s", fa, fb)
	}
	if _, err := pki.Fingerprint("no key"); err == nil {
		t.Error("a text has a fingerprint")
	}
}

func FuzzParseRequest(f *testing.F) {
	f.Add(request(f, must(pki.NewKey())(f)))
	f.Add([]byte("-----BEGIN CERTIFICATE REQUEST-----\n-----END CERTIFICATE REQUEST-----\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		key, err := pki.ParseRequest(data)
		if (key == nil) == (err == nil) {
			t.Fatalf("got %v, %v", key, err)
		}
	})
}
