package kubekeys

import (
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/oscarfed/oscarfed/internal/pki"
)

// life outlives any run of tests.
const life = 24 * time.Hour

// Keys are files of one folder, by their paths.
type Keys struct {
	// Authority has signed the certificates.
	Authority, ServerCert, ServerKey string
	// AccountPublic and AccountPrivate are for the tokens of service accounts.
	AccountPublic, AccountPrivate string
	// Tokens is the API server's list of users.
	Tokens string
	// AuthorityPEM is what Authority has in it.
	AuthorityPEM []byte

	dir       string
	authority *pki.Authority
}

// User is one with a token.
type User struct{ Token, Name, Group string }

// Administrator may do everything.
func Administrator() User { return User{rand.Text(), "admin", "system:masters"} }

// Make makes the keys of an API server of these host names, whose users have tokens.
func Make(dir, authority string, hosts []string, users ...User) (*Keys, error) {
	ca, err := pki.LoadOrCreate(filepath.Join(dir, "authority"), authority, time.Now)
	if err != nil {
		return nil, err
	}
	k := &Keys{AuthorityPEM: ca.CertPEM(), dir: dir, authority: ca}
	if k.ServerCert, k.ServerKey, err = k.issue("server", pki.Subject{Hosts: hosts, Life: life}); err != nil {
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
	var tokens strings.Builder
	for _, u := range users {
		tokens.WriteString(strings.Join([]string{u.Token, u.Name, u.Name, u.Group}, ",") + "\n")
	}
	for _, f := range []struct {
		path *string
		name string
		data []byte
	}{
		{&k.Authority, "ca.crt", k.AuthorityPEM},
		{&k.AccountPrivate, "accounts.key", private},
		{&k.AccountPublic, "accounts.pub", pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: public})},
		{&k.Tokens, "tokens.csv", []byte(tokens.String())},
	} {
		if *f.path, err = k.write(f.name, f.data); err != nil {
			return nil, err
		}
	}
	return k, nil
}

// Client makes the certificate and key of a user, as files.
func (k *Keys) Client(user string) (cert, key string, err error) {
	return k.issue("client", pki.Subject{Name: user, Life: life})
}

func (k *Keys) issue(file string, of pki.Subject) (certPath, keyPath string, err error) {
	cert, key, err := k.authority.Issue(of)
	if err != nil {
		return "", "", err
	}
	if certPath, err = k.write(file+".crt", cert); err != nil {
		return "", "", err
	}
	keyPath, err = k.write(file+".key", key)
	return certPath, keyPath, err
}

func (k *Keys) write(name string, data []byte) (path string, err error) {
	path = filepath.Join(k.dir, name)
	return path, os.WriteFile(path, data, 0o600)
}
