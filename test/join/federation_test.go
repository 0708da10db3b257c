// Package join_test has clusters join, renew, leave and return over a real etcd with
// TLS and users, a control plane behind its API, and syncers with their OSCARs. Clocks of
// the control plane and of the syncers are moved; that of etcd is not, so that every
// certificate in use is valid now.
package join_test

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	v1 "github.com/oscarfed/oscarfed/api/v1"
	"github.com/oscarfed/oscarfed/controlplane"
	"github.com/oscarfed/oscarfed/internal/pki"
	"github.com/oscarfed/oscarfed/store"
	"github.com/oscarfed/oscarfed/store/seal"
	"github.com/oscarfed/oscarfed/store/storetest"
	"github.com/oscarfed/oscarfed/syncer"
	"github.com/oscarfed/oscarfed/syncer/answers"
	"github.com/oscarfed/oscarfed/syncer/enroll"
	"github.com/oscarfed/oscarfed/syncer/manager"
	"github.com/oscarfed/oscarfed/syncer/session"
	"github.com/oscarfed/oscarfed/test/await"
	"github.com/oscarfed/oscarfed/test/world"
)

// federation is a world over an etcd that has users, whose clusters join by themselves.
type federation struct {
	*world.World
	clock world.Clock
	log   *slog.Logger

	// gone makes the API answer as a proxy does whose server is away; refused counts
	// what was answered so.
	gone    atomic.Bool
	refused atomic.Int64
}

func newFederation(t *testing.T) *federation {
	t.Helper()
	f := &federation{log: storetest.Logger(t)}
	f.World = world.New(t, world.Options{
		Clusters: []string{}, Guarded: true, TLS: true, Middleware: f.unlessGone, Now: f.clock.Now,
		ControlPlane: func(c *controlplane.Config) { c.LostAfter, c.DefaultCluster, c.Users = 0, "a", nil },
	})
	return f
}

func (f *federation) unlessGone(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if f.gone.Load() {
			f.refused.Add(1)
			http.Error(w, "no upstream", http.StatusBadGateway)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// site is the machine of one cluster: an OSCAR, and a directory that outlives its
// syncer.
type site struct {
	*world.Cluster
	f *federation
	// endpoint is where the syncer looks for its OSCAR.
	endpoint string
	dir      string
	identity *seal.Identity
	kube     string
	token    string

	// enrolment is that of the syncer that runs, or ran last.
	enrolment *enroll.Enrolment
	stop      func()
}

func (f *federation) site(id string) *site {
	f.T.Helper()
	c := f.Machine(id)
	s := &site{Cluster: c, f: f, endpoint: c.URL, dir: f.T.TempDir(), identity: world.Must(seal.Generate())(f.T), kube: "kube-" + id, stop: func() {}}
	if err := os.WriteFile(filepath.Join(s.dir, "password"), []byte(world.Password), 0o600); err != nil {
		f.T.Fatal(err)
	}
	return s
}

// register makes the cluster known and gives the machine a token.
func (s *site) register() {
	s.f.T.Helper()
	if _, err := s.f.Client.RegisterCluster(s.f.T.Context(), v1.ClusterSpec{ClusterID: s.ID, Endpoint: s.endpoint}); err != nil {
		s.f.T.Fatal(err)
	}
	s.invite(false)
}

func (s *site) invite(replace bool) {
	s.f.T.Helper()
	token, err := s.f.Client.IssueJoin(s.f.T.Context(), s.ID, v1.JoinRequest{ReplaceKey: replace})
	if err != nil {
		s.f.T.Fatal(err)
	}
	s.token = token.Token
}

// openEnrolment is what a start of the syncer does first.
func (s *site) openEnrolment() *enroll.Enrolment {
	s.f.T.Helper()
	s.enrolment = world.Must(enroll.Open(enroll.Config{
		ClusterID: s.ID, ControlPlane: s.f.API, Roots: world.Must(pki.NewRoots(s.f.CA))(s.f.T).Pool, Dir: s.dir, Recipient: s.identity.Recipient(),
		Token:         func() (string, error) { return s.token, nil },
		KubeSystemUID: func(context.Context) (string, error) { return s.kube, nil },
		OscarID: func(ctx context.Context) (string, error) {
			return answers.Identify(ctx, s.oscar(), "", func() bool { return true })
		},
		FirstPause: 10 * time.Millisecond, LastPause: time.Second, RefusedPause: 10 * time.Millisecond, Look: 10 * time.Millisecond,
		Now: s.f.clock.Now, Logger: s.f.log,
	}))(s.f.T)
	return s.enrolment
}

func (s *site) oscar() *manager.Client {
	s.f.T.Helper()
	return world.Must(manager.New(manager.Config{Endpoint: s.endpoint, User: world.User, PasswordFile: filepath.Join(s.dir, "password")}))(s.f.T)
}

// ensure opens the enrolment and answers what stops the syncer's start.
func (s *site) ensure() error {
	s.f.T.Helper()
	ctx, cancel := context.WithTimeout(s.f.T.Context(), await.Limit)
	defer cancel()
	return s.openEnrolment().Ensure(ctx)
}

// connect is a client of etcd with the syncer's certificate.
func (s *site) connect() *store.Store {
	s.f.T.Helper()
	ca, endpoints := s.enrolment.Etcd()
	return storetest.Open(s.f.T, store.Config{Endpoints: endpoints, CA: ca, Certificate: s.enrolment.Certificate, Logger: s.f.log})
}

// start joins, or goes on as what the directory says, and runs the syncer.
func (s *site) start() {
	s.f.T.Helper()
	if err := s.ensure(); err != nil {
		s.f.T.Fatal(err)
	}
	enrolment := s.enrolment
	s.Start(func(c *syncer.Config) {
		c.Store, c.Identity, c.OSCAR, c.Relay = s.connect(), s.identity, s.oscar(), nil
		c.Memory, c.AcceptClusterUID = session.MemoryFile(filepath.Join(s.dir, "cluster-uid")), enrolment.ClusterUID()
		c.SessionTTL = 5 * time.Second
	})
	stopRenewing := world.Background(s.f.T, func(ctx context.Context) error {
		if err := enrolment.Run(ctx); !errors.Is(err, enroll.ErrAccessChanged) {
			return err
		}
		return nil
	})
	s.stop = func() { s.Stop(); stopRenewing() }
}

func (f *federation) await(ids ...string) {
	f.T.Helper()
	ctx, cancel := context.WithTimeout(f.T.Context(), await.Limit)
	defer cancel()
	for _, id := range ids {
		if err := f.CP.Clusters.Await(ctx, id); err != nil {
			f.T.Fatalf("the syncer of %s did not connect: %v", id, err)
		}
	}
}
