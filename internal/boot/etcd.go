package boot

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/url"
	"path/filepath"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc"

	"github.com/oscarfed/oscarfed/controlplane"
	"github.com/oscarfed/oscarfed/internal/outbound"
	"github.com/oscarfed/oscarfed/internal/pki"
	"github.com/oscarfed/oscarfed/store"
	"github.com/oscarfed/oscarfed/store/access"
	"github.com/oscarfed/oscarfed/store/embedded"
)

const (
	// serverLife is of the certificate of an embedded etcd, which renews itself.
	serverLife = 90 * 24 * time.Hour
	// authorityName is the common name of an etcd's authority.
	authorityName = "oscarfed etcd authority"
)

// etcd is the one that a control plane works on.
type etcd struct {
	// server is nil for an external one.
	server *embedded.Server
	// certificate is of the server; nil without TLS.
	certificate *pki.Server
	// users is nil when etcd has no authentication, or when this process may not change its users.
	users *etcdUsers
	plain store.Config
	// options are for the connections of the control plane.
	options []grpc.DialOption
}

// embeddedEtcd says how the etcd in this process is run.
type embeddedEtcd struct {
	dataDir string
	server  embedded.Config
	// names are what its certificate is for besides what syncers are told.
	names []string
	// auth asks for TLS and users on loopback, too.
	auth bool
	log  *slog.Logger
}

// etcdDir is where an embedded etcd has its data, in the data directory.
func etcdDir(dataDir string) string { return filepath.Join(dataDir, "etcd") }

// guarded says whether etcd has users: always when others than this machine could
// reach it.
func (e embeddedEtcd) guarded() bool {
	host, _, err := net.SplitHostPort(e.server.ListenClient)
	return e.auth || err == nil && !outbound.Loopback(host)
}

// start runs the server and, where authentication is enabled, sets up its users.
func (e embeddedEtcd) start(ctx context.Context, registry prometheus.Registerer) (out *etcd, err error) {
	cfg := e.server
	cfg.Dir, cfg.Logger = etcdDir(e.dataDir), e.log
	out = &etcd{}
	var authority *pki.Authority
	if e.guarded() {
		if authority, err = pki.LoadOrCreate(pkiDir(e.dataDir), authorityName, time.Now); err != nil {
			return nil, fmt.Errorf("etcd: %w", err)
		}
		out.certificate, err = authority.Server(pki.ServerConfig{
			File: filepath.Join(pkiDir(e.dataDir), "server.pem"), Hosts: serverHosts(cfg, e.names), Life: serverLife, Logger: e.log,
		})
		if err != nil {
			return nil, fmt.Errorf("etcd: %w", err)
		}
		cfg.CertFile = filepath.Join(pkiDir(e.dataDir), "server.pem")
		cfg.KeyFile, cfg.CAFile = cfg.CertFile, filepath.Join(pkiDir(e.dataDir), pki.AuthorityCertFile)
		cfg.Guarded, cfg.Trusted = true, []string{access.ControlPlane}
		if cfg.OnLease, cfg.OnRefusal, err = countRequests(registry); err != nil {
			return nil, err
		}
		if cfg.LeaseKey, err = authority.Derive(leasePurpose); err != nil {
			return nil, err
		}
	}
	if out.server, err = embedded.Start(ctx, cfg); err != nil {
		return nil, err
	}
	endpoint := reachable(out.server.Endpoint())
	out.plain = store.Config{Endpoints: []string{endpoint}, Logger: e.log}
	if authority == nil {
		return out, nil
	}
	advertised := cfg.AdvertiseClient
	if len(advertised) == 0 {
		advertised = []string{endpoint}
	}
	out.users = &etcdUsers{authority: authority, caFile: cfg.CAFile, endpoints: []string{endpoint}, advertised: advertised, log: e.log}
	if err := out.users.setUp(ctx); err != nil {
		out.server.Close()
		return nil, fmt.Errorf("etcd's users: %w", err)
	}
	return out, nil
}

// externalEtcd is one that the operator runs.
func externalEtcd(cfg Etcd, users Users, now func() time.Time, log *slog.Logger) (*etcd, error) {
	out := &etcd{plain: cfg.store(log)}
	out.plain.Now = now
	if users.Authority == "" {
		return out, nil
	}
	authority, err := loadAuthority(users.Authority, now)
	if err != nil {
		return nil, err
	}
	advertised := users.Advertise
	if len(advertised) == 0 {
		advertised = cfg.Endpoints
	}
	out.users = &etcdUsers{authority: authority, caFile: cfg.CAFile, endpoints: cfg.Endpoints, advertised: advertised, now: now, log: log}
	return out, nil
}

// open connects as the control plane.
func (e *etcd) open(ctx context.Context) (*store.Store, error) {
	if e.users == nil {
		plain := e.plain
		plain.DialOptions = e.options
		return dialStore(ctx, plain)
	}
	st, err := e.users.open(ctx, e.options)
	if err != nil {
		return nil, err
	}
	on, err := access.New(st).Enabled(ctx)
	if err == nil && !on {
		err = errors.New("etcd asks nobody who is calling, so every certificate that it trusts could do everything: run oscarfed etcd setup first")
	}
	if err != nil {
		closeStore(st, e.users.log)
		return nil, err
	}
	return st, nil
}

// serve enters into a control plane's configuration how it changes etcd's users, and
// makes space: nothing where etcd has none, or where only others may. life is of the clusters' certificates.
func (e *etcd) serve(cfg *controlplane.Config, life time.Duration) error {
	if e.users == nil {
		return nil
	}
	how, err := e.users.access()
	if err != nil {
		return err
	}
	how.Life = life
	cfg.Access, cfg.Users, cfg.Root = how, how, e.users.root
	return nil
}

// close ends the server; an external one goes on.
func (e *etcd) close() {
	if e.server != nil {
		e.server.Close()
	}
}

// serverHosts are the names that the server's certificate is for: those that others
// are told, those that are given, and this machine's own.
func serverHosts(cfg embedded.Config, names []string) []string {
	out := append([]string{"127.0.0.1", "::1", "localhost"}, names...)
	if host, _, err := net.SplitHostPort(cfg.ListenClient); err == nil && !anyAddress(host) {
		out = append(out, host)
	}
	for _, advertised := range cfg.AdvertiseClient {
		if u, err := url.Parse(advertised); err == nil {
			out = append(out, u.Hostname())
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// reachable is where this process finds a server that listens on every address.
func reachable(endpoint string) string {
	u, err := url.Parse(endpoint)
	if err != nil || !anyAddress(u.Hostname()) {
		return endpoint
	}
	u.Host = net.JoinHostPort("127.0.0.1", u.Port())
	return u.String()
}

func anyAddress(host string) bool {
	ip := net.ParseIP(host)
	return host == "" || ip != nil && ip.IsUnspecified()
}

// leasePurpose names the secret that the leases of clusters are marked with.
const leasePurpose = "marks of leases in etcd"

// countRequests counts requests of leases by user, and what is refused.
func countRequests(registry prometheus.Registerer) (leased func(user string, granted bool), refused func(user, limit string), err error) {
	requests := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "oscarfed_etcd_lease_requests_total", Help: "Requests of clusters for leases, at the embedded etcd or the gateway, by cluster and outcome.",
	}, []string{"cluster", "outcome"})
	refusals := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "oscarfed_etcd_refused_requests_total", Help: "Requests of clusters that passed a limit, at the embedded etcd or the gateway, by cluster and limit.",
	}, []string{"cluster", "limit"})
	if err := errors.Join(registry.Register(requests), registry.Register(refusals)); err != nil {
		return nil, nil, fmt.Errorf("register metrics: %w", err)
	}
	return func(user string, granted bool) {
			outcome := "refused"
			if granted {
				outcome = "granted"
			}
			requests.WithLabelValues(clusterOf(user), outcome).Inc()
		}, func(user, limit string) {
			refusals.WithLabelValues(clusterOf(user), limit).Inc()
		}, nil
}

// clusterOf is the cluster of a user, or the user.
func clusterOf(user string) string {
	if life, ok := access.LifeOf(user); ok {
		return life.Cluster
	}
	return user
}

// dialStore connects to etcd. An etcd that is away is asked again for as long as
// readyTimeout: a daemon often starts in the very outage that ended it.
func dialStore(ctx context.Context, cfg store.Config) (*store.Store, error) {
	st, _, err := dialOneOf(ctx, cfg, []store.Config{cfg})
	return st, err
}

// memberTry bounds one attempt to connect to one of several members.
const memberTry = 5 * time.Second

// dialMember is dialStore to a single member, the first that answers, and says which.
func dialMember(ctx context.Context, cfg store.Config) (st *store.Store, endpoint string, err error) {
	ways := make([]store.Config, len(cfg.Endpoints))
	for i, endpoint := range cfg.Endpoints {
		ways[i] = cfg
		ways[i].Endpoints = []string{endpoint}
	}
	st, i, err := dialOneOf(ctx, cfg, ways)
	return st, cfg.Endpoints[i], err
}

// dialOneOf tries several ways to the etcd of cfg in turn, and says by which it was reached.
func dialOneOf(ctx context.Context, cfg store.Config, ways []store.Config) (*store.Store, int, error) {
	distrust := func(err error) {
		cfg.Logger.Error("this process and etcd do not trust each other's certificates", "error", err, "endpoints", cfg.Endpoints)
	}
	asked := ctx
	ctx, cancel := context.WithTimeout(ctx, readyTimeout)
	defer cancel()
	for i := 0; ; i = (i + 1) % len(ways) {
		way, try, cancel := ways[i], ctx, func() {}
		if way.OnDistrust == nil {
			way.OnDistrust = distrust
		}
		if len(ways) > 1 {
			try, cancel = context.WithTimeout(ctx, memberTry)
		}
		st, err := store.Open(try, way)
		cancel()
		switch {
		case err == nil:
			return st, i, nil
		case errors.Is(err, store.ErrUnavailable) && ctx.Err() == nil:
			cfg.Logger.Warn("waiting for etcd", "error", err, "endpoints", unreached(ctx, way.Endpoints))
		case errors.Is(err, store.ErrUnavailable) && asked.Err() == nil:
			return nil, i, fmt.Errorf("etcd: %w (%s)", err, unreached(asked, cfg.Endpoints))
		default:
			return nil, i, fmt.Errorf("etcd: %w", err)
		}
	}
}
