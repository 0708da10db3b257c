package enroll

import (
	"crypto/ecdsa"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/url"
	"os"
	"slices"
	"time"

	v1 "github.com/oscarfed/oscarfed/api/v1"
	"github.com/oscarfed/oscarfed/internal/atomicfile"
	"github.com/oscarfed/oscarfed/internal/pki"
)

// maxState bounds the file and an answer in bytes; they have about 3 KiB.
const maxState = 256 << 10

// saved is the content of the file: the last answer, when it was received, and to which token.
type saved struct {
	V int `json:"v"`
	v1.Enrolment
	// ReceivedAt is by this machine's clock.
	ReceivedAt time.Time `json:"received_at"`
	// Token is the hash of the token that it joined with, so that it is not used twice.
	Token string `json:"token"`
	// RefusedToken is the hash of one that was refused since, so that it is not tried at each start.
	RefusedToken string `json:"refused_token,omitempty"`
}

// enrolled is an answer that was checked and parsed.
type enrolled struct {
	saved
	cert *tls.Certificate
	// life of the certificate.
	life time.Duration
}

// otherClusterError says that an answer is another cluster's.
type otherClusterError struct{ id string }

func (e *otherClusterError) Error() string { return fmt.Sprintf("it is for cluster %q", e.id) }

// check parses an answer if it is for this cluster and this key.
func check(s saved, cluster string, key *ecdsa.PrivateKey) (*enrolled, error) {
	block, rest := pem.Decode([]byte(s.Certificate))
	if block == nil || block.Type != "CERTIFICATE" || len(rest) > 0 {
		return nil, errors.New("the certificate is not one in PEM")
	}
	leaf, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		return nil, fmt.Errorf("the certificate: %w", err)
	}
	switch {
	case s.ClusterID != cluster:
		return nil, &otherClusterError{s.ClusterID}
	case s.ClusterUID == "" || leaf.Subject.CommonName != cluster+"."+s.ClusterUID:
		return nil, fmt.Errorf("the certificate is for %q", leaf.Subject.CommonName)
	case !key.PublicKey.Equal(leaf.PublicKey):
		return nil, errors.New("the certificate is for another key")
	case pki.Life(leaf) <= 0:
		return nil, errors.New("the certificate was over when it was made: the authority that signs has ended")
	case s.EtcdCA != "" && !x509.NewCertPool().AppendCertsFromPEM([]byte(s.EtcdCA)):
		return nil, errors.New("etcd's CA is not a certificate in PEM")
	case len(s.EtcdEndpoints) == 0:
		return nil, errors.New("it names no endpoint of etcd")
	}
	for _, endpoint := range s.EtcdEndpoints {
		if u, err := url.Parse(endpoint); err != nil || u.Scheme != "https" || u.Host == "" {
			return nil, fmt.Errorf("the endpoint %q of etcd is not https", endpoint)
		}
	}
	return &enrolled{
		saved: s, life: pki.Life(leaf),
		cert: &tls.Certificate{Certificate: [][]byte{block.Bytes}, PrivateKey: key, Leaf: leaf},
	}, nil
}

// age is how long this machine has the certificate. A clock that was set back makes
// it as old as it can be: renewing too early does no harm.
func (e *enrolled) age(now time.Time) time.Duration {
	if age := now.Sub(e.ReceivedAt); age >= 0 {
		return age
	}
	return e.life
}

// expired says whether the certificate has ended, by this machine's clock.
func (e *enrolled) expired(now time.Time) bool { return e.age(now) >= e.life }

// accessChanged says whether etcd's address or CA, or the registration, differs from before: open
// connections do not follow by themselves.
func (e *enrolled) accessChanged(next *enrolled) bool {
	return e.ClusterUID != next.ClusterUID || e.EtcdCA != next.EtcdCA || !slices.Equal(e.EtcdEndpoints, next.EtcdEndpoints)
}

// load reads the file; nil when there is none. What is not of this cluster and this key
// is an error.
func load(path, cluster string, key *ecdsa.PrivateKey) (*enrolled, error) {
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil //nolint:nilnil // there is none, and that is no error
	}
	if err != nil {
		return nil, err
	}
	defer f.Close() //nolint:errcheck // it is only read
	data, err := io.ReadAll(io.LimitReader(f, maxState+1))
	if err != nil {
		return nil, err
	}
	var s saved
	if len(data) > maxState || json.Unmarshal(data, &s) != nil {
		return nil, errors.New("it is damaged")
	}
	return check(s, cluster, key)
}

// save returns when the answer would survive the loss of power.
func save(path string, s saved) error {
	data, err := json.Marshal(s)
	if err != nil {
		return err
	}
	return atomicfile.Write(path, append(data, '\n'), 0o600)
}

// hashOf identifies a token without revealing it; empty for none.
func hashOf(token string) string {
	if token == "" {
		return ""
	}
	sum := sha256.Sum256([]byte(token))
	return hex.EncodeToString(sum[:])
}
