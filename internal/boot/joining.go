package boot

import (
	"bufio"
	"context"
	"crypto/x509"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/oscarfed/oscarfed/internal/outbound"
	"github.com/oscarfed/oscarfed/internal/pki"
	"github.com/oscarfed/oscarfed/store"
	"github.com/oscarfed/oscarfed/store/seal"
	"github.com/oscarfed/oscarfed/syncer"
	"github.com/oscarfed/oscarfed/syncer/answers"
	"github.com/oscarfed/oscarfed/syncer/enroll"
	"github.com/oscarfed/oscarfed/syncer/kube"
)

// Joining says how a syncer gets its certificate for etcd, when it is not given one.
type Joining struct {
	ControlPlane       string `placeholder:"URL" help:"The control plane's API, to join at and to renew the certificate for etcd. Instead of --etcd-endpoints."`
	ControlPlaneCAFile string `name:"control-plane-ca-file" placeholder:"FILE" help:"Authorities that the API's certificate is verified with; default the system's."`
	ControlPlaneCA     string `name:"control-plane-ca" placeholder:"BASE64" help:"The same in place of a file: certificates in base64 (DER, one after the other)."`
	JoinTokenFile      string `placeholder:"FILE" help:"File with the token to join with (oscarfed cluster join), or - for standard input. Needed once; a token that was used is not read again."`
	DataDir            string `placeholder:"DIR" help:"Keeps the key and the certificate of a cluster that has joined; default the directory of --identity-file."`
	ClientKeyFile      string `placeholder:"FILE" help:"The syncer's private key for etcd (ECDSA P-256, PKCS #8 in PEM); default client.key in --data-dir, made when it is missing."`
}

// validate checks what is needed to join; api says that the API is spoken to for another
// reason.
func (c Joining) validate(etcd Etcd, api bool) error {
	given := len(etcd.Endpoints) > 0 || etcd.CertFile != "" || etcd.CAFile != ""
	if c.ControlPlane == "" {
		return errors.Join(
			when(len(etcd.Endpoints) == 0, "give --control-plane to join, or --etcd-endpoints"),
			when(c.JoinTokenFile+c.ClientKeyFile != "", "--join-token-file and --client-key-file go with --control-plane"),
			when(!api && c.ControlPlaneCAFile+c.ControlPlaneCA != "", "--control-plane-ca-file and --control-plane-ca go with --control-plane or --api-endpoint"),
			when(c.ControlPlaneCAFile != "" && c.ControlPlaneCA != "", "give --control-plane-ca-file or --control-plane-ca, not both"),
		)
	}
	if err := enroll.CheckURL(c.ControlPlane); err != nil {
		return fmt.Errorf("--control-plane: %w", err)
	}
	return errors.Join(
		when(given, "give --control-plane or --etcd-*, not both: who joins is told how etcd is reached"),
		when(c.ControlPlaneCAFile != "" && c.ControlPlaneCA != "", "give --control-plane-ca-file or --control-plane-ca, not both"),
	)
}

// roots verify the API's certificate.
func (c Joining) roots(log *slog.Logger) (outbound.RootPool, error) {
	if c.ControlPlaneCA == "" {
		roots, err := rootsOf(c.ControlPlaneCAFile, log)
		if err != nil {
			return nil, fmt.Errorf("--control-plane-ca-file: %w", err)
		}
		return roots, nil
	}
	der, err := base64.StdEncoding.DecodeString(c.ControlPlaneCA)
	if err != nil {
		return nil, errors.New("--control-plane-ca is not base64")
	}
	certs, err := x509.ParseCertificates(der)
	if err != nil || len(certs) == 0 {
		return nil, errors.New("--control-plane-ca holds no certificate")
	}
	pool := x509.NewCertPool()
	for _, cert := range certs {
		pool.AddCert(cert)
	}
	return func() *x509.CertPool { return pool }, nil
}

// rootsOf are the authorities in a file, as it is now; the system's without one.
func rootsOf(file string, log *slog.Logger) (outbound.RootPool, error) {
	if file == "" {
		return nil, nil //nolint:nilnil // these are the system's
	}
	roots, err := pki.OpenRoots(file, log)
	if err != nil {
		return nil, err
	}
	return roots.Pool, nil
}

// token reads the join token. Standard input can be read once: its first line is kept for as long as the process runs.
func (c Joining) token(stdin io.Reader) func() (string, error) {
	switch c.JoinTokenFile {
	case "":
		return nil
	case "-":
		return sync.OnceValues(func() (string, error) {
			line, err := bufio.NewReader(io.LimitReader(stdin, maxSecretFile)).ReadString('\n')
			if errors.Is(err, io.EOF) {
				err = nil
			}
			return strings.TrimSpace(line), err
		})
	}
	return func() (string, error) {
		text, err := readSecret(c.JoinTokenFile)
		return strings.TrimSpace(text), err
	}
}

// openEnrolment is nil for a syncer that is told by flags how etcd is reached.
func openEnrolment(cfg Syncer, token func() (string, error), roots outbound.RootPool, id *seal.Identity, kubernetes kube.Interface, client syncer.OSCAR, now func() time.Time, registry prometheus.Registerer, log *slog.Logger) (*enroll.Enrolment, error) {
	if cfg.ControlPlane == "" {
		return nil, nil //nolint:nilnil // there is none, and that is no error
	}
	dir := cfg.DataDir
	if dir == "" {
		dir = filepath.Dir(cfg.IdentityFile)
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("the data directory: %w", err)
	}
	return enroll.Open(enroll.Config{
		ClusterID: cfg.ClusterID, ControlPlane: cfg.ControlPlane, Roots: roots, Dir: dir, KeyFile: cfg.ClientKeyFile, TakeOver: cfg.AcceptClusterUID != "",
		Token: token, Recipient: id.Recipient(), Now: now, Logger: log, Registry: registry,
		KubeSystemUID: func(ctx context.Context) (string, error) {
			uid, err := kubernetes.SystemUID(ctx)
			if errors.Is(err, kube.ErrAbsent) {
				return "", nil
			}
			return uid, err
		},
		OscarID: func(ctx context.Context) (string, error) {
			if cfg.SharedMinIO {
				return "", nil
			}
			return answers.Identify(ctx, client, "", func() bool { return true })
		},
	})
}

// storeOf is how a syncer reaches etcd.
func storeOf(cfg Syncer, enrolment *enroll.Enrolment, now func() time.Time, log *slog.Logger) store.Config {
	if enrolment == nil {
		out := cfg.store(log)
		out.Now = now
		return out
	}
	ca, endpoints := enrolment.Etcd()
	return store.Config{Endpoints: endpoints, CA: ca, Certificate: enrolment.Certificate, OnDistrust: enrolment.Distrusted, Now: now, Logger: log}
}
