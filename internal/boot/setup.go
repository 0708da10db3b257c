package boot

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/oscarfed/oscarfed/internal/pki"
	"github.com/oscarfed/oscarfed/store/access"
)

// EtcdSetup is the configuration of the command etcd setup.
type EtcdSetup struct {
	Etcd   `embed:""`
	CAOut  string `name:"ca-out" required:"" placeholder:"DIR" help:"Directory of the authority of etcd's users; made when it is missing. It becomes --etcd-authority of the control plane."`
	DryRun bool   `env:"-" help:"Change nothing, in etcd or here: say what would be done."`

	Log `embed:""`
}

// Validate reports everything that is wrong.
func (c EtcdSetup) Validate() error {
	problems := []error{
		pair("etcd-cert-file", c.CertFile, "etcd-key-file", c.KeyFile),
		when(c.CAOut == "", "--ca-out must not be empty"),
		when(len(c.Endpoints) == 0, "give --etcd-endpoints, all members"),
	}
	for _, endpoint := range c.Endpoints {
		problems = append(problems, when(!strings.HasPrefix(endpoint, "https://"),
			fmt.Sprintf("%s: users are told by client certificates, so every endpoint is https://", endpoint)))
	}
	return errors.Join(problems...)
}

// setupTry bounds one attempt to connect.
const setupTry = 5 * time.Second

// RunEtcdSetup prepares an external etcd. Nothing is changed in it before it is sure
// that root and the control plane can still connect afterwards.
func RunEtcdSetup(ctx context.Context, cfg EtcdSetup, log *slog.Logger, out io.Writer) error {
	_, err := os.Stat(filepath.Join(cfg.CAOut, pki.AuthorityCertFile))
	if made := errors.Is(err, os.ErrNotExist); made && cfg.DryRun {
		_, err := fmt.Fprintf(out, "would make an authority in %s; run without --dry-run to have it, and let every member of etcd trust it\n", cfg.CAOut)
		return err
	}
	authority, err := pki.LoadOrCreate(cfg.CAOut, authorityName, time.Now)
	if err != nil {
		return err
	}
	users := &etcdUsers{authority: authority, caFile: cfg.CAFile, endpoints: cfg.Endpoints, log: log}
	if err := users.trusted(ctx, cfg); err != nil {
		return err
	}
	conf := users.config(access.Root, rootLife)
	if cfg.CertFile != "" {
		if err := rootCertificate(cfg.CertFile, cfg.KeyFile); err != nil {
			return err
		}
		conf = cfg.store(log)
	}
	root, err := dialStore(ctx, conf)
	if err != nil {
		return err
	}
	defer closeStore(root, log)
	steps := 0
	dry := access.DryRun(root, func(step string) {
		steps++
		fmt.Fprintln(out, "would", step)
	})
	if cfg.DryRun {
		if err := dry.SetUp(ctx); err != nil {
			return err
		}
		if steps == 0 {
			fmt.Fprintln(out, "nothing is to be done")
		}
		return nil
	}
	if err := access.New(root).SetUp(ctx); err != nil {
		return err
	}
	return users.report(ctx, cfg, out)
}

// trusted proves of every member that answers that it accepts certificates of the authority, and
// that it refuses clients without one.
func (u *etcdUsers) trusted(ctx context.Context, cfg EtcdSetup) error {
	answered := false
	var last error
	for _, endpoint := range cfg.Endpoints {
		conf, err := serverTrust(cfg.CAFile)
		if err != nil {
			return err
		}
		in, err := letsIn(ctx, endpoint, conf)
		switch {
		case err != nil:
			u.log.Warn("etcd member does not answer", "endpoint", endpoint, "error", err)
			last = err
			continue
		case in:
			return fmt.Errorf("etcd at %s lets in clients without a certificate: start each member with --client-cert-auth, so that nobody can try passwords or ask for leases", endpoint)
		}
		conf.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
			return u.authority.Client(access.ControlPlane, rootLife).Certificate()
		}
		if in, err = letsIn(ctx, endpoint, conf); err != nil {
			return fmt.Errorf("etcd at %s: %w", endpoint, err)
		}
		if !in {
			return fmt.Errorf("etcd at %s does not believe certificates of the authority %s: add it to the --trusted-ca-file of each member, restart them one after another, and run this again",
				endpoint, filepath.Join(cfg.CAOut, pki.AuthorityCertFile))
		}
		answered = true
	}
	if !answered {
		return fmt.Errorf("no member of etcd answers: %w", last)
	}
	return nil
}

// serverTrust verifies etcd's own certificates.
func serverTrust(caFile string) (*tls.Config, error) {
	conf := &tls.Config{MinVersion: tls.VersionTLS12, NextProtos: []string{"h2"}}
	if caFile == "" {
		return conf, nil
	}
	var err error
	conf.RootCAs, err = certificates("etcd CA file", caFile)
	return conf, err
}

// certificates reads a file of authorities.
func certificates(what, file string) (*x509.CertPool, error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", what, err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(data) {
		return nil, fmt.Errorf("%s %s holds no PEM certificate", what, file)
	}
	return pool, nil
}

// letsIn says whether a server takes a connection. In TLS 1.3 a client is told only
// after the handshake that its certificate is refused: instead of the first bytes
// that a gRPC server sends.
func letsIn(ctx context.Context, endpoint string, conf *tls.Config) (bool, error) {
	u, err := url.Parse(endpoint)
	if err != nil {
		return false, err
	}
	ctx, cancel := context.WithTimeout(ctx, setupTry)
	defer cancel()
	raw, err := (&net.Dialer{}).DialContext(ctx, "tcp", u.Host)
	if err != nil {
		return false, err
	}
	defer raw.Close() //nolint:errcheck // nothing was written
	conf = conf.Clone()
	conf.ServerName = u.Hostname()
	conn := tls.Client(raw, conf)
	if deadline, ok := ctx.Deadline(); ok {
		if err := conn.SetDeadline(deadline); err != nil {
			return false, err
		}
	}
	err = conn.HandshakeContext(ctx)
	if err == nil {
		_, err = conn.Read(make([]byte, 1))
	}
	if alert := (*net.OpError)(nil); errors.As(err, &alert) && alert.Op == "remote error" {
		return false, nil
	}
	return err == nil, err
}

// rootCertificate refuses a certificate that would not be root any more once authentication is
// enabled: that would shut out all clients.
func rootCertificate(certFile, keyFile string) error {
	pair, err := tls.LoadX509KeyPair(certFile, keyFile)
	if err != nil {
		return fmt.Errorf("root's certificate: %w", err)
	}
	cert, err := x509.ParseCertificate(pair.Certificate[0])
	if err != nil {
		return fmt.Errorf("root's certificate: %w", err)
	}
	if name := cert.Subject.CommonName; name != access.Root {
		return fmt.Errorf("the certificate in %s speaks for %q, and not for %q, who alone may change users: give another one, or leave --etcd-cert-file out, "+
			"and one is signed for this moment", certFile, name, access.Root)
	}
	return nil
}

// report proves that it works, and says what goes where.
func (u *etcdUsers) report(ctx context.Context, cfg EtcdSetup, out io.Writer) error {
	st, err := u.open(ctx, nil)
	if err != nil {
		return err
	}
	defer closeStore(st, u.log)
	if _, err := st.Read(ctx); err != nil {
		return fmt.Errorf("etcd is prepared, but the control plane's user cannot read: %w", err)
	}
	ca := ""
	if cfg.CAFile != "" {
		ca = " --etcd-ca-file " + cfg.CAFile
	}
	_, err = fmt.Fprintf(out, `etcd is prepared: it asks who is calling. Every other client of it needs a user from now on.

every member of etcd   --client-cert-auth --trusted-ca-file with %[1]s in it
each control plane     --etcd-endpoints %[2]s%[3]s --etcd-authority %[4]s
a backup               oscarfed backup FILE --etcd-endpoints %[2]s%[3]s --etcd-authority %[4]s
each cluster           oscarfed cluster join CLUSTER_ID

Who has %[5]s is root of this etcd: give it to who needs --etcd-authority alone, and keep a copy of it as of their identity.
`, filepath.Join(cfg.CAOut, pki.AuthorityCertFile), strings.Join(cfg.Endpoints, ","), ca, cfg.CAOut, filepath.Join(cfg.CAOut, "ca.key"))
	return err
}
