package kubetest

import (
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"os"
	"path/filepath"
	"time"

	"github.com/oscarfed/oscarfed/internal/pki"
)

// certificateLife outlives any run of tests.
const certificateLife = 24 * time.Hour

// keys are the files that an API server is started with.
type keys struct {
	authority, serverCert, serverKey string
	accountPublic, accountPrivate    string
	tokens                           string
	authorityPEM                     []byte
	adminToken                       string
}

// newKeys makes an authority, a certificate of the server, a pair of keys for tokens
// of service accounts, and the token of an administrator.
func newKeys(dir string) (*keys, error) {
	authority, err := pki.LoadOrCreate(filepath.Join(dir, "authority"), "kubetest", time.Now)
	if err != nil {
		return nil, err
	}
	cert, key, err := authority.Issue(pki.Subject{Hosts: []string{"127.0.0.1"}, Life: certificateLife})
	if err != nil {
		return nil, err
	}
	account, err := pki.NewKey()
	if err != nil {
		return nil, err
	}
	private, err := pki.EncodeKey(account)
	if err != nil {
		return nil, err
	}
	public, err := x509.MarshalPKIXPublicKey(account.Public())
	if err != nil {
		return nil, err
	}
	k := &keys{authorityPEM: authority.CertPEM(), adminToken: rand.Text()}
	for _, f := range []struct {
		path *string
		name string
		data []byte
	}{
		{&k.authority, "ca.crt", k.authorityPEM},
		{&k.serverCert, "server.crt", cert},
		{&k.serverKey, "server.key", key},
		{&k.accountPrivate, "accounts.key", private},
		{&k.accountPublic, "accounts.pub", pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: public})},
		{&k.tokens, "tokens.csv", []byte(k.adminToken + ",admin,admin,system:masters\n")},
	} {
		*f.path = filepath.Join(dir, f.name)
		if err := os.WriteFile(*f.path, f.data, 0o600); err != nil {
			return nil, err
		}
	}
	return k, nil
}
