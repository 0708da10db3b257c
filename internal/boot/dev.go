package boot

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"

	"github.com/oscarfed/oscarfed/api/server"
	"github.com/oscarfed/oscarfed/controlplane"
	"github.com/oscarfed/oscarfed/controlplane/clusters"
	"github.com/oscarfed/oscarfed/controlplane/fault"
	"github.com/oscarfed/oscarfed/controlplane/identity"
	"github.com/oscarfed/oscarfed/internal/oscarsim"
	"github.com/oscarfed/oscarfed/store"
	"github.com/oscarfed/oscarfed/store/access"
	"github.com/oscarfed/oscarfed/store/embedded"
	"github.com/oscarfed/oscarfed/store/seal"
	"github.com/oscarfed/oscarfed/syncer"
	"github.com/oscarfed/oscarfed/syncer/manager"
	"github.com/oscarfed/oscarfed/syncer/relay"
	"github.com/oscarfed/oscarfed/syncer/services"
	"github.com/oscarfed/oscarfed/syncer/session"
	"github.com/oscarfed/oscarfed/syncer/token"
)

// devPasswordFile holds the password of a simulated OSCAR, in its cluster's folder.
const devPasswordFile = "oscar-password"

// devSessionTTL is short, so that what was killed is missed soon.
const devSessionTTL = 5 * time.Second

// DevReady is what a development federation says when it serves.
type DevReady struct {
	Ready    bool         `json:"ready"`
	API      string       `json:"api"`
	User     string       `json:"user"`
	Password string       `json:"password"`
	Etcd     string       `json:"etcd"`
	Clusters []DevCluster `json:"clusters"`
	// Issuer is the OpenID provider with --openid, and Users are who can log in there.
	Issuer string    `json:"issuer,omitempty"`
	Users  []DevUser `json:"users,omitempty"`
	// Config is a configuration file for the CLI, with the administrator's credentials.
	Config string `json:"config"`
}

// DevCluster is one simulated OSCAR.
type DevCluster struct {
	ClusterID string `json:"cluster_id"`
	Endpoint  string `json:"endpoint"`
	User      string `json:"user"`
	Password  string `json:"password"`
}

// RunDev runs etcd, a control plane, and a simulated OSCAR with a syncer for each
// cluster in this process until ctx ends. ready is called once when everything serves.
func RunDev(ctx context.Context, cfg Dev, log *slog.Logger, ready func(DevReady) error) (err error) {
	dir := cfg.DataDir
	if dir == "" {
		if dir, err = os.MkdirTemp("", "oscarfed-dev-"); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", cfg.Listen)
	if err != nil {
		return fmt.Errorf("the API: %w", err)
	}
	defer listener.Close() // it is closed already when it has served
	if server.Exposed(listener.Addr()) {
		return errors.New("a development federation listens on loopback only")
	}
	log, recent := remembered(log)
	registry := newRegistry()
	etcd, err := embeddedEtcd{
		dataDir: dir, auth: cfg.EtcdAuth, log: log, server: embedded.Config{ListenClient: cfg.EtcdListen, Fast: true},
	}.start(ctx, registry)
	if err != nil {
		return err
	}
	defer etcd.close()
	st, err := etcd.open(ctx)
	if err != nil {
		return err
	}
	defer closeStore(st, log)

	d := dev{cfg: cfg, dir: dir, log: log, recent: recent, etcd: etcd, registry: registry}
	if cfg.OpenID {
		if d.openid, err = listenOpenID(ctx, cfg.OpenIDListen, log); err != nil {
			return err
		}
		defer d.openid.listener.Close() // as above
	}
	return d.run(ctx, st, listener, ready)
}

// dev is a development federation under way.
type dev struct {
	cfg Dev
	dir string
	log *slog.Logger
	// recent are its last lines.
	recent func() []byte
	etcd   *etcd
	// registry takes the control plane's metrics.
	registry *prometheus.Registry
	// openid is nil without --openid.
	openid *devOpenID
}

func (d dev) run(ctx context.Context, st *store.Store, listener net.Listener, ready func(DevReady) error) error {
	id, err := seal.LoadOrCreate(filepath.Join(d.dir, identityName))
	if err != nil {
		return err
	}
	password := rand.Text()
	basic, err := identity.NewBasic("oscar", password)
	if err != nil {
		return err
	}
	conf := controlplane.Config{
		Store: st, Identity: id, DefaultCluster: devClusterID(0), Witness: filepath.Join(d.dir, witnessName), Logger: d.log, RecentLog: d.recent, Registry: d.registry,
		Limits: access.DefaultLimits(),
	}
	if err := d.etcd.serve(&conf, clusters.ClientLife); err != nil {
		return err
	}
	cp, err := controlplane.New(conf)
	if err != nil {
		return err
	}
	serverConf := server.Config{UseCases: UseCases(cp), Authenticator: basic, Logger: d.log, Registry: d.registry, Origins: d.cfg.CORSOrigins}
	front := front{cp: cp, listener: listener, etcd: d.etcd, log: d.log}
	state := DevReady{Ready: true, API: "http://" + listener.Addr().String(), User: "oscar", Password: password, Etcd: d.etcd.server.Endpoint()}
	if state.Config, err = writeConfig(d.dir, state); err != nil {
		return err
	}
	g, ctx := errgroup.WithContext(ctx)
	if d.openid != nil {
		if front.oidc, err = d.openid.authenticator(cp.Federations, d.log); err != nil {
			return err
		}
		serverConf.Authenticator = identity.Schemes{Basic: basic, Bearer: front.oidc}
		serverConf.OIDCGroups, serverConf.LoginIssuers = []string{devGroup}, d.openid.login()
		state.Issuer, state.Users = d.openid.provider.URL, d.openid.users
		g.Go(func() error { return d.openid.serve(ctx) })
	}
	front.server = server.New(serverConf)
	for i := range d.cfg.Clusters {
		cluster, err := d.cluster(ctx, g, i)
		if err != nil {
			return err
		}
		state.Clusters = append(state.Clusters, cluster)
	}
	front.ready = func() error {
		if err := d.join(ctx, g, cp, state.Clusters, state.API); err != nil {
			return err
		}
		return ready(state)
	}
	g.Go(func() error { return serve(ctx, front) })
	return g.Wait()
}

// cluster starts one simulated OSCAR.
func (d dev) cluster(ctx context.Context, g *errgroup.Group, i int) (DevCluster, error) {
	out := DevCluster{ClusterID: devClusterID(i), User: "oscar", Password: rand.Text()}
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return out, err
	}
	out.Endpoint = "http://" + l.Addr().String()
	sim := oscarsim.New(oscarsim.Config{
		ClusterID: out.ClusterID, User: out.User, Password: out.Password, Latency: d.cfg.OscarLatency, Logger: d.log,
		Workload: &oscarsim.Workload{Seed: uint64(i), Min: d.cfg.JobTime, Max: d.cfg.JobTime}, //nolint:gosec // 0 to 25
		Function: http.HandlerFunc(oscarsim.Echo), Users: d.openid.source(), Groups: []string{devGroup},
	})
	dir := filepath.Join(d.dir, out.ClusterID)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return out, errors.Join(err, l.Close())
	}
	if err := os.WriteFile(filepath.Join(dir, devPasswordFile), []byte(out.Password), 0o600); err != nil {
		return out, errors.Join(err, l.Close())
	}
	g.Go(func() error { return sim.Serve(ctx, l) })
	return out, nil
}

// syncer starts the syncer of a registered cluster.
func (d dev) syncer(ctx context.Context, g *errgroup.Group, c DevCluster, uid, apiURL string) error {
	dir := filepath.Join(d.dir, c.ClusterID)
	client, err := manager.New(manager.Config{Endpoint: c.Endpoint, User: c.User, PasswordFile: filepath.Join(dir, devPasswordFile)})
	if err != nil {
		return err
	}
	id, err := seal.LoadOrCreate(filepath.Join(dir, identityName))
	if err != nil {
		return err
	}
	// A client of its own: the syncer of another process would have one too.
	conf := d.etcd.plain
	if users := d.etcd.users; users != nil {
		how, err := users.access()
		if err != nil {
			return err
		}
		if err := how.Admit(ctx, c.ClusterID, uid); err != nil {
			return err
		}
		conf = users.config(access.Syncer(c.ClusterID, uid), clusters.ClientLife)
	}
	st, err := dialStore(ctx, conf)
	if err != nil {
		return err
	}
	stream, err := relay.New(relay.Config{ControlPlane: apiURL, Logger: d.log.With("cluster", c.ClusterID)})
	if err != nil {
		closeStore(st, d.log)
		return err
	}
	s, err := syncer.New(syncer.Config{
		Relay: stream, ClusterID: c.ClusterID, Store: st, OSCAR: client, Identity: id, Memory: session.MemoryFile(filepath.Join(dir, clusterUIDFile)),
		InDoubt: services.DoubtFile(filepath.Join(dir, inDoubtFile)),
		// There is no Kubernetes: what is held is forgotten with this process.
		Vault:  &token.Memory{},
		Resync: d.cfg.Resync, SessionTTL: devSessionTTL, Logger: d.log,
	})
	if err != nil {
		closeStore(st, d.log)
		return err
	}
	g.Go(func() error {
		defer closeStore(st, d.log)
		return s.Run(ctx)
	})
	return nil
}

// join registers the clusters, unless an earlier run in the same folder has, starts
// their syncers, and waits until they are connected.
func (d dev) join(ctx context.Context, g *errgroup.Group, cp *controlplane.ControlPlane, ids []DevCluster, apiURL string) error {
	started, cancel := context.WithTimeout(ctx, readyTimeout)
	defer cancel()
	admin := identity.Caller{Subject: identity.Admin, Administrator: true}
	for _, c := range ids {
		spec := clusters.Spec{ClusterID: c.ClusterID, Endpoint: c.Endpoint}
		reg, err := cp.Clusters.Register(started, admin, spec)
		if e := (*fault.Error)(nil); errors.As(err, &e) && e.Code == fault.CodeAlreadyExists {
			reg, err = cp.Clusters.Update(started, admin, spec)
		}
		if err != nil {
			return fmt.Errorf("register %s: %w", c.ClusterID, err)
		}
		if err := d.syncer(ctx, g, c, reg.UID, apiURL); err != nil {
			return fmt.Errorf("the syncer of %s: %w", c.ClusterID, err)
		}
	}
	for _, c := range ids {
		if err := cp.Clusters.Await(started, c.ClusterID); err != nil {
			return fmt.Errorf("wait for the syncer of %s: %w", c.ClusterID, err)
		}
	}
	return nil
}

func devClusterID(i int) string { return "oscar-cluster-" + "abcdefghijklmnopqrstuvwxyz"[i:i+1] }
