package boot

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"time"

	"google.golang.org/grpc"

	"github.com/oscarfed/oscarfed/controlplane/clusters"
	"github.com/oscarfed/oscarfed/internal/pki"
	"github.com/oscarfed/oscarfed/store"
	"github.com/oscarfed/oscarfed/store/access"
	"github.com/oscarfed/oscarfed/store/record"
)

// Lives of the certificates that a control plane signs for itself.
const (
	// everydayLife is of the user that it works as.
	everydayLife = 24 * time.Hour
	// rootLife is the life of a certificate of root, which is made for one piece of work.
	rootLife = 15 * time.Minute
)

// etcdUsers reaches an etcd whose users are told by certificates of an authority
// that is here.
type etcdUsers struct {
	authority *pki.Authority
	// caFile verifies etcd's own certificates; empty for the system's authorities.
	caFile string
	// endpoints are those that this process uses, advertised those that syncers do.
	endpoints, advertised []string
	// now is the clock that etcd's certificate is held against; nil for the machine's.
	now func() time.Time
	log *slog.Logger
}

// config connects as a user, with a certificate that is only in memory.
func (u *etcdUsers) config(user string, life time.Duration) store.Config {
	return store.Config{
		Endpoints: u.endpoints, CAFile: u.caFile, Now: u.now, Logger: u.log, Certificate: u.authority.Client(user, life).Certificate,
	}
}

// root opens the store as etcd's root.
func (u *etcdUsers) root(ctx context.Context) (*store.Store, error) {
	return dialStore(ctx, u.config(access.Root, rootLife))
}

// open opens the store as the control plane.
func (u *etcdUsers) open(ctx context.Context, options []grpc.DialOption) (*store.Store, error) {
	cfg := u.config(access.ControlPlane, everydayLife)
	cfg.DialOptions = options
	return dialStore(ctx, cfg)
}

// setUp makes root and the control plane's user, and switches authentication on. It
// was perhaps begun before, by a process that died in it.
func (u *etcdUsers) setUp(ctx context.Context) (err error) {
	root, err := u.root(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, root.Close()) }()
	admin := access.New(root)
	on, err := admin.Enabled(ctx)
	if err != nil {
		return err
	}
	if err := admin.SetUp(ctx); err != nil {
		return err
	}
	if on {
		return nil
	}
	clusters, err := root.ListKeys(ctx, record.ClustersPrefix)
	if err != nil {
		return err
	}
	u.log.Info("etcd asks who is calling from now on")
	if len(clusters) > 0 {
		u.log.Warn("syncers that connected without a certificate are shut out: each cluster has to join", "clusters", len(clusters))
	}
	return nil
}

// access is what the control plane admits clusters by.
func (u *etcdUsers) access() (*clusters.EtcdAccess, error) {
	out := &clusters.EtcdAccess{
		Authority: u.authority, Endpoints: u.advertised,
		Admin: func(ctx context.Context) (*access.Admin, func(), error) {
			root, err := u.root(ctx)
			if err != nil {
				return nil, nil, err
			}
			return access.New(root), func() { closeStore(root, u.log) }, nil
		},
	}
	if u.caFile != "" {
		var err error
		if out.Etcd, err = pki.OpenRoots(u.caFile, u.log); err != nil {
			return nil, fmt.Errorf("etcd's CA: %w", err)
		}
	}
	return out, nil
}

// pkiDir is where the authority of an embedded etcd is, in the data directory.
func pkiDir(dataDir string) string { return filepath.Join(dataDir, "pki") }

// loadAuthority reads the authority that was made for an etcd.
func loadAuthority(dir string, now func() time.Time) (*pki.Authority, error) {
	a, err := pki.LoadDir(dir, now)
	if err != nil {
		return nil, fmt.Errorf("the authority of etcd's users: %w", err)
	}
	return a, nil
}
