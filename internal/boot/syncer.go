package boot

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"golang.org/x/sync/errgroup"

	"github.com/oscarfed/oscarfed/internal/clock"
	"github.com/oscarfed/oscarfed/internal/failpoint"
	"github.com/oscarfed/oscarfed/internal/outbound"
	"github.com/oscarfed/oscarfed/internal/processlock"
	"github.com/oscarfed/oscarfed/store/seal"
	"github.com/oscarfed/oscarfed/syncer"
	"github.com/oscarfed/oscarfed/syncer/enroll"
	"github.com/oscarfed/oscarfed/syncer/jobs"
	"github.com/oscarfed/oscarfed/syncer/keyserver"
	"github.com/oscarfed/oscarfed/syncer/kube"
	"github.com/oscarfed/oscarfed/syncer/manager"
	"github.com/oscarfed/oscarfed/syncer/origin"
	"github.com/oscarfed/oscarfed/syncer/relay"
	"github.com/oscarfed/oscarfed/syncer/services"
	"github.com/oscarfed/oscarfed/syncer/session"
)

// clusterUIDFile is the name of the syncer's memory beside its identity.
const clusterUIDFile = "cluster-uid"

// Names of more files beside its identity: its list of writes in doubt, and what it locks as long as it runs.
const (
	inDoubtFile = "in-doubt"
	lockFile    = "lock"
)

// RunSyncer runs the daemon until ctx ends. When the control plane tells another way to
// etcd, or the cluster has joined under another registration, everything that works
// with etcd begins anew. A join token may be read from stdin.
func RunSyncer(ctx context.Context, cfg Syncer, stdin io.Reader, log *slog.Logger) error {
	token := cfg.token(stdin)
	for {
		err := runSyncer(ctx, cfg, token, log)
		if !errors.Is(err, enroll.ErrAccessChanged) {
			return err
		}
		log.Info("the syncer begins anew", "reason", err)
	}
}

func runSyncer(ctx context.Context, cfg Syncer, token func() (string, error), log *slog.Logger) error {
	registry := newRegistry()
	roots, err := cfg.roots(log)
	if err != nil {
		return err
	}
	conf, err := syncerConfig(cfg, roots, registry, log)
	if err != nil {
		return err
	}
	requests, err := measure(registry, conf.Now)
	if err != nil {
		return err
	}
	if lock := takeLock(filepath.Dir(cfg.IdentityFile), log); lock != nil {
		defer func() { _ = lock.Close() }()
		conf.Lock = lock.Name()
	}
	if conf.Tracer, err = cfg.Tracing.open(ctx, 0, "oscar-syncer", cfg.ClusterID, log); err != nil {
		return err
	}
	defer conf.Tracer.Close()
	enrolment, err := openEnrolment(cfg, token, roots, conf.Identity, conf.Kube, conf.OSCAR, conf.Now, registry, log)
	if err != nil {
		return err
	}
	if cfg.LocalURL != "" {
		origins, err := origin.New(origin.Config{ControlPlane: cfg.api(), Roots: roots})
		if err != nil {
			return err
		}
		defer origins.Close()
		conf.LocalURL, conf.Origins = strings.TrimRight(cfg.LocalURL, "/"), origins
		if conf.Local, err = keyserver.New(keyserver.Config{Listen: cfg.LocalListen, Logger: log, Registry: registry}); err != nil {
			return err
		}
	}
	g, ctx := errgroup.WithContext(ctx)
	if cfg.MetricsListen != "" {
		g.Go(func() error {
			return serveMetrics(ctx, cfg.MetricsListen, promhttp.HandlerFor(registry, promhttp.HandlerOpts{}), log)
		})
	}
	g.Go(func() error {
		if enrolment != nil {
			if err := enrolment.Ensure(ctx); err != nil {
				return err
			}
			// The administrator has said with the token that this machine is meant, and
			// for which registration.
			conf.AcceptClusterUID = enrolment.ClusterUID()
			if err := rememberFirst(conf.Memory, enrolment.ClusterUID()); err != nil {
				return fmt.Errorf("the memory of the cluster's uid: %w", err)
			}
			g.Go(func() error { return enrolment.Run(ctx) })
		}
		reach := storeOf(cfg, enrolment, conf.Now, log)
		reach.DialOptions = append(reach.DialOptions, requests)
		st, err := dialStore(ctx, reach)
		if err != nil {
			return err
		}
		defer closeStore(st, log)
		conf.Store = st
		s, err := syncer.New(conf)
		if err != nil {
			return err
		}
		return s.Run(ctx)
	})
	return g.Wait()
}

// takeLock takes the lock of the folder of a syncer's files; nil where it cannot.
func takeLock(folder string, log *slog.Logger) *processlock.Lock {
	lock, err := processlock.Take(filepath.Join(folder, lockFile))
	switch {
	case errors.Is(err, processlock.ErrHeld):
		log.Warn("another syncer runs with the same folder of --identity-file: that of another cluster needs one of its own; "+
			"until then the session and the Lease of a syncer that was killed here are waited out", "folder", folder)
	case err != nil:
		log.Warn("the session and the Lease of a syncer that was killed here are waited out", "error", err)
	}
	return lock
}

// syncerConfig is the configuration of a syncer, without the store and what hands out keys of
// storage.
func syncerConfig(cfg Syncer, roots outbound.RootPool, registry *prometheus.Registry, log *slog.Logger) (conf syncer.Config, err error) {
	if err := os.MkdirAll(filepath.Dir(cfg.IdentityFile), 0o700); err != nil {
		return conf, fmt.Errorf("the cluster's identity: %w", err)
	}
	id, err := seal.LoadOrCreate(cfg.IdentityFile)
	if err != nil {
		return conf, fmt.Errorf("the cluster's identity: %w", err)
	}
	fail, err := failpoint.FromEnv(append(syncer.FailPoints(), syncer.JobFailPoints()...)...)
	if err != nil {
		return conf, err
	}
	now, err := clock.FromEnv()
	if err != nil {
		return conf, err
	}
	oscarRoots, err := rootsOf(cfg.OscarCAFile, log)
	if err != nil {
		return conf, fmt.Errorf("--oscar-ca-file: %w", err)
	}
	client, err := manager.New(manager.Config{
		Endpoint: cfg.OscarEndpoint, User: cfg.OscarUser, PasswordFile: cfg.OscarPasswordFile, Roots: oscarRoots,
	})
	if err != nil {
		return conf, fmt.Errorf("the local OSCAR: %w", err)
	}
	kubernetes, err := openKubernetes(cfg, now, log)
	if err != nil {
		return conf, err
	}
	memory := cmp.Or(cfg.ClusterUIDFile, filepath.Join(filepath.Dir(cfg.IdentityFile), clusterUIDFile))
	issuers, err := issuersOf(cfg, readSecret)
	if err != nil {
		return conf, err
	}
	streams, err := openRelay(cfg, roots, now, registry, log)
	if err != nil {
		return conf, err
	}
	return syncer.Config{
		ClusterID: cfg.ClusterID, OSCAR: client, Kube: kubernetes, Identity: id, Issuers: issuers, Resync: cfg.Resync,
		Memory: session.MemoryFile(memory), AcceptClusterUID: cfg.AcceptClusterUID, SharedMinIO: cfg.SharedMinIO,
		InDoubt:    services.DoubtFile(filepath.Join(filepath.Dir(cfg.IdentityFile), inDoubtFile)),
		SessionTTL: cfg.SessionTTL, LateWindow: cfg.LateWindow, Jobs: jobs.Limits{Posts: cfg.JobPosts, Start: cmp.Or(cfg.JobStartTimeout, -1)},
		FailPoints: fail, Now: now, Logger: log, Registry: registry,
		KeepJobs: cfg.OfferJobs == offersOff, RescheduleAfter: cfg.RescheduleAfter, Relay: streams,
	}, nil
}

// api is the address of the control plane's API; empty for a syncer that is not told, or is
// to have nothing to do with it.
func (c Syncer) api() string {
	address := c.APIEndpoint
	if address == "" {
		address = c.ControlPlane
	}
	if address == relayOff {
		return ""
	}
	return address
}

// openRelay is nil for a syncer that is not told where the control plane's API is.
func openRelay(cfg Syncer, roots outbound.RootPool, now func() time.Time, registry prometheus.Registerer, log *slog.Logger) (syncer.Relay, error) {
	address := cfg.api()
	if address == "" {
		log.Info("no stream to the control plane: logs of this cluster cannot be read there, and it can be invoked at its own address only")
		return nil, nil //nolint:nilnil // there is none, and that is no error
	}
	limits := relay.Limits{Admin: cfg.RelayAdmin}
	return relay.New(relay.Config{ControlPlane: address, Roots: roots, Limits: limits, Now: now, Logger: log, Registry: registry})
}

// rememberFirst has a syncer that remembers nothing serve the registration that it has
// joined, and not the first that it meets: its certificate may be of an earlier one.
func rememberFirst(memory session.Memory, uid string) error {
	known, err := memory.Load()
	if err != nil || known != "" {
		return err
	}
	return memory.Save(uid)
}

// openKubernetes finds the Kubernetes below the OSCAR: the one that the kubeconfig
// names, or the one that this pod runs in, or none.
func openKubernetes(cfg Syncer, now func() time.Time, log *slog.Logger) (kube.Interface, error) {
	if cfg.Kubernetes == kubernetesOff {
		return kube.Absent{}, nil
	}
	client, err := kube.Open(kube.Config{Kubeconfig: cfg.Kubeconfig, Services: cfg.ServicesNamespace, Now: now, Logger: log})
	if errors.Is(err, kube.ErrAbsent) {
		log.Warn("no Kubernetes: half-created services are not healed, drift is found by resyncs alone, no refresh token is held and no job offered; " +
			"give --kubeconfig, or --kubernetes=off if it is to be so")
		return kube.Absent{}, nil
	}
	if err != nil {
		return nil, err
	}
	return client, nil
}
