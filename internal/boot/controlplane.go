package boot

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc"

	"github.com/oscarfed/oscarfed/api/server"
	"github.com/oscarfed/oscarfed/controlplane"
	"github.com/oscarfed/oscarfed/controlplane/identity"
	"github.com/oscarfed/oscarfed/controlplane/jobs"
	"github.com/oscarfed/oscarfed/internal/clock"
	"github.com/oscarfed/oscarfed/internal/failpoint"
	"github.com/oscarfed/oscarfed/internal/logring"
	"github.com/oscarfed/oscarfed/internal/pki"
	"github.com/oscarfed/oscarfed/store"
	"github.com/oscarfed/oscarfed/store/access"
	"github.com/oscarfed/oscarfed/store/embedded"
	"github.com/oscarfed/oscarfed/store/seal"
)

// identityName is the file, in the data directory, with the control plane's key.
const identityName = "identity.age"

// witnessName is the file, in the data directory, in which an instance keeps what it
// has seen in etcd.
const witnessName = "witness.json"

// readyTimeout bounds the start of etcd and the wait for it. A wait that takes longer goes on, and
// a log line says so each time.
const readyTimeout = 60 * time.Second

// recentLog is how many bytes of its log a control plane keeps in memory, for who helps.
const recentLog = 4 << 20

// RunControlPlane runs the daemon until ctx ends. It writes one line to out when
// it serves: the address of its API.
func RunControlPlane(ctx context.Context, cfg ControlPlane, log *slog.Logger, out io.Writer) error {
	log, recent := remembered(log)
	password, err := readSecret(cfg.AdminPasswordFile)
	if err != nil {
		return fmt.Errorf("the administrator's password: %w", err)
	}
	conf, err := useCasesOf(cfg, log)
	if err != nil {
		return err
	}
	proxies, err := prefixes("trusted-proxies", cfg.TrustedProxies)
	if err != nil {
		return err
	}
	listener, certificate, err := listen(ctx, cfg, log)
	if err != nil {
		return err
	}
	defer listener.Close() // it is closed already when it has served
	registry := newRegistry()
	if err := measureCertificate(registry, certificate); err != nil {
		return err
	}
	conf.Registry, conf.RecentLog = registry, recent
	if conf.Tracer, err = cfg.Tracing.open(ctx, cfg.TraceShare, "oscar-controlplane", "", log); err != nil {
		return err
	}
	defer conf.Tracer.Close()
	etcd, err := startEtcd(ctx, cfg, conf.Now, registry, log)
	if err != nil {
		return err
	}
	defer etcd.close()
	requests, err := measure(registry, conf.Now)
	if err != nil {
		return err
	}
	etcd.options = []grpc.DialOption{requests}
	if conf.Store, err = etcd.open(ctx); err != nil {
		return err
	}
	defer closeStore(conf.Store, log)
	if conf.AuditLog, err = openAudit(cfg.AuditFile, cfg.AuditSyslog); err != nil {
		return err
	}
	if conf.AuditLog != nil {
		defer closeAudit(conf.AuditLog, log)
	}
	if err := etcd.serve(&conf, cfg.CertificateLife); err != nil {
		return err
	}
	cp, err := controlplane.New(conf)
	if err != nil {
		return err
	}
	auth, oidc, err := authenticator(cfg, password, cp.Federations, conf.Now, log)
	if err != nil {
		return err
	}
	login, err := loginIssuers(cfg)
	if err != nil {
		return err
	}
	srv := server.New(server.Config{
		UseCases: UseCases(cp), Authenticator: auth, Logger: log, Tracer: conf.Tracer, Registry: registry, Now: conf.Now,
		RateLimit: cfg.RateLimit, DefaultWait: cfg.DefaultWait, Origins: cfg.CORSOrigins, OIDCGroups: cfg.OIDCGroups, TrustedProxies: proxies,
		LoginIssuers: login,
	})
	return serve(ctx, front{
		cp: cp, server: srv, oidc: oidc, listener: listener, certificate: certificate, metrics: cfg.MetricsListen, etcd: etcd, log: log,
		ready: func() error {
			_, err := fmt.Fprintf(out, "oscar-controlplane: API on %s\n", listener.Addr())
			return err
		},
	})
}

// useCasesOf is the configuration of the use cases, without what has to be opened: etcd and the
// export of the audit.
func useCasesOf(cfg ControlPlane, log *slog.Logger) (conf controlplane.Config, err error) {
	witness := filepath.Join(cfg.DataDir, witnessName)
	if err := os.MkdirAll(cfg.DataDir, 0o700); err != nil {
		if len(cfg.Endpoints) == 0 {
			return conf, fmt.Errorf("the data directory: %w", err)
		}
		log.Warn("there is no data directory: when etcd is restored while this instance is down, it has to be told so with --restored", "error", err)
		witness = ""
	}
	id, err := controlPlaneIdentity(cfg)
	if err != nil {
		return conf, err
	}
	fail, err := failpoint.FromEnv(append(controlplane.FailPoints(), controlplane.JobFailPoints()...)...)
	if err != nil {
		return conf, err
	}
	now, err := clock.FromEnv()
	if err != nil {
		return conf, err
	}
	networks, err := prefixes("endpoint-networks", cfg.EndpointNetworks)
	if err != nil {
		return conf, err
	}
	return controlplane.Config{
		Identity: id, DefaultCluster: cfg.DefaultCluster, PrepareDeadline: cfg.PrepareDeadline,
		ApplyGrace: cfg.ApplyGrace, RefreshTokenMaxAge: maxAge(cfg.RefreshTokenMaxAge), MaxQueueDelay: cfg.MaxQueueDelay, EtcdRetention: cfg.Retention,
		Now: now, FailPoint: fail.Hit, Logger: log, Witness: witness, Restored: cfg.Restored, Limits: access.Limits(cfg.Limits),
		JobsPerFederation: cfg.JobsPerFederation, JobsPerUser: cfg.JobsPerUser,
		JobWeights: jobs.Weights{Accounts: cfg.JobWeights, Federations: cfg.FederationJobWeights}, RequestsPerUser: cfg.RequestsPerUser, BytesPerUser: cfg.BytesPerUser,
		EndpointNetworks: networks,
	}, nil
}

// front is a control plane with what it is reached by.
type front struct {
	cp     *controlplane.ControlPlane
	server *server.Server
	// oidc is nil when there are no users but the administrator.
	oidc     *identity.OIDC
	listener net.Listener
	// certificate is nil for plain HTTP.
	certificate *pki.Files
	metrics     string
	etcd        *etcd
	log         *slog.Logger
	// ready is called when requests can be served.
	ready func() error
}

// serve runs a control plane and its API. When ctx ends the API drains first, and
// only then do the deciders stop.
func serve(ctx context.Context, f front) error {
	decide, stopDeciding := context.WithCancel(context.WithoutCancel(ctx))
	defer stopDeciding()
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return f.cp.Run(decide) })
	g.Go(func() error {
		defer stopDeciding()
		return server.Serve(ctx, server.ServeConfig{
			Listen: f.listener, Handler: f.server.Handler(), TLS: f.tls(), Logger: f.log, OnDrain: f.server.Drain,
		})
	})
	if f.certificate != nil {
		g.Go(func() error { f.certificate.Watch(ctx, certificateInterval); return nil })
	}
	if f.oidc != nil {
		g.Go(func() error { return f.oidc.Run(ctx) })
	}
	if f.metrics != "" {
		g.Go(func() error { return serveMetrics(ctx, f.metrics, f.server.Metrics(), f.log) })
	}
	if srv := f.etcd.server; srv != nil {
		g.Go(func() error {
			select {
			case err := <-srv.Err():
				return fmt.Errorf("the embedded etcd stopped: %w", err)
			case <-ctx.Done():
				return nil
			}
		})
	}
	if certificate := f.etcd.certificate; certificate != nil {
		g.Go(func() error { certificate.Run(ctx, renewalInterval); return nil })
	}
	g.Go(func() error {
		late := time.NewTicker(readyTimeout)
		defer late.Stop()
		for {
			select {
			case <-f.cp.Ready():
				return f.ready()
			case <-late.C:
				f.log.Warn("no requests are served yet: the store cannot be read, or not be prepared")
			case <-ctx.Done():
				return nil
			}
		}
	})
	return g.Wait()
}

// authenticator lets in the administrator and the users of the issuers.
func authenticator(cfg ControlPlane, password string, owners identity.Owners, now func() time.Time, log *slog.Logger) (identity.Authenticator, *identity.OIDC, error) {
	basic, err := identity.NewBasic(cfg.AdminUser, password)
	if err != nil || len(cfg.OIDCIssuers) == 0 {
		return identity.Schemes{Basic: basic}, nil, err
	}
	if len(cfg.OIDCAudiences) == 0 {
		log.Warn("tokens of every audience are accepted: one that a user gave to any other service of an issuer lets that service in here as him; give --oidc-audience", "issuers", cfg.OIDCIssuers)
	}
	oidc, err := identity.NewOIDC(identity.OIDCConfig{
		Issuers: cfg.OIDCIssuers, Audiences: cfg.OIDCAudiences, Groups: cfg.OIDCGroups, Owners: owners, Now: now, Logger: log,
	})
	if err != nil {
		return nil, nil, fmt.Errorf("users: %w", err)
	}
	return identity.Schemes{Basic: basic, Bearer: oidc}, oidc, nil
}

func controlPlaneIdentity(cfg ControlPlane) (*seal.Identity, error) {
	path := cfg.IdentityFile
	if path == "" {
		path = filepath.Join(cfg.DataDir, identityName)
	}
	load := seal.LoadOrCreate
	founded := len(cfg.Endpoints) == 0 && holdsDatabase(cfg.DataDir)
	if founded || len(cfg.Endpoints) > 0 {
		// What is in the store, and another instance's secrets, are sealed to the key that is there: a new one made here by
		// accident could open none of them, and would keep a restore from putting the right one there.
		load = seal.Load
	}
	id, err := load(path)
	if founded && errors.Is(err, fs.ErrNotExist) {
		err = fmt.Errorf("%w; the database in %s was made with one: put that file there, give --identity-file, or restore the backup again with --recovery-identity-file",
			err, cfg.DataDir)
	}
	if err != nil {
		return nil, fmt.Errorf("the control plane's identity: %w", err)
	}
	return id, nil
}

// holdsDatabase says whether the embedded etcd of a data directory has run, or was restored.
func holdsDatabase(dataDir string) bool {
	_, err := os.Stat(filepath.Join(etcdDir(dataDir), "member"))
	return err == nil
}

// renewalInterval is how often it is looked whether the embedded etcd needs a new
// certificate.
const renewalInterval = time.Hour

// certificateInterval is how often the API's certificate is looked at.
const certificateInterval = 10 * time.Second

// tls is nil for plain HTTP.
func (f front) tls() *tls.Config {
	if f.certificate == nil {
		return nil
	}
	return &tls.Config{MinVersion: tls.VersionTLS12, GetCertificate: f.certificate.GetCertificate}
}

func listen(ctx context.Context, cfg ControlPlane, log *slog.Logger) (net.Listener, *pki.Files, error) {
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", cfg.Listen)
	if err != nil {
		return nil, nil, fmt.Errorf("the API: %w", err)
	}
	if cfg.TLSCertFile == "" {
		if server.Exposed(l.Addr()) && !cfg.InsecureHTTP {
			return nil, nil, errors.Join(fmt.Errorf(
				"the API would listen on %s without TLS: give --tls-cert-file and --tls-key-file, or --insecure-http", l.Addr()), l.Close())
		}
		return l, nil, nil
	}
	files, err := pki.OpenFiles(cfg.TLSCertFile, cfg.TLSKeyFile, log)
	if err != nil {
		return nil, nil, errors.Join(fmt.Errorf("the API: %w", err), l.Close())
	}
	return l, files, nil
}

// startEtcd runs the embedded etcd, or finds out how the external one is reached.
func startEtcd(ctx context.Context, cfg ControlPlane, now func() time.Time, registry prometheus.Registerer, log *slog.Logger) (*etcd, error) {
	if len(cfg.Endpoints) > 0 {
		return externalEtcd(cfg.Etcd, cfg.Users, now, log)
	}
	return embeddedEtcd{
		dataDir: cfg.DataDir, auth: cfg.EtcdAuth, log: log,
		names:  cfg.EtcdNames,
		server: embedded.Config{ListenClient: cfg.EtcdListen, AdvertiseClient: cfg.Advertise, Quota: cfg.EtcdQuota, Retention: cfg.Retention},
	}.start(ctx, registry)
}

func closeStore(st *store.Store, log *slog.Logger) {
	if err := st.Close(); err != nil {
		log.Warn("etcd's client did not close cleanly", "error", err)
	}
}

// remembered is a log whose last lines are kept in memory, too, and what gives them.
func remembered(log *slog.Logger) (*slog.Logger, func() []byte) {
	recent := logring.New(recentLog)
	return slog.New(slog.NewMultiHandler(log.Handler(), jsonLog(recent, slog.LevelInfo))), recent.Bytes
}

// maxAge is what the control plane takes for the age of a refresh token: never, for 0.
func maxAge(d time.Duration) time.Duration {
	if d == 0 {
		return -1
	}
	return d
}

// prefixes reads networks.
func prefixes(flag string, texts []string) ([]netip.Prefix, error) {
	out := make([]netip.Prefix, len(texts))
	for i, text := range texts {
		p, err := netip.ParsePrefix(text)
		if err != nil {
			return nil, fmt.Errorf("--%s: %q is no network, as 10.0.0.0/8 is: %w", flag, text, err)
		}
		out[i] = p
	}
	return out, nil
}
