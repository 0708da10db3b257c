package controlplane_test

import (
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	v1 "github.com/oscarfed/oscarfed/api/v1"
	"github.com/oscarfed/oscarfed/controlplane"
	"github.com/oscarfed/oscarfed/controlplane/clusters"
	"github.com/oscarfed/oscarfed/controlplane/fault"
	"github.com/oscarfed/oscarfed/internal/pki"
	"github.com/oscarfed/oscarfed/store"
	"github.com/oscarfed/oscarfed/store/record"
	"github.com/oscarfed/oscarfed/store/seal"
)

// gate stands for etcd's users: who was admitted and who was sent away.
type gate struct {
	authority *pki.Authority

	mu       sync.Mutex
	admitted []string
	// before is called with each admission; it may be nil.
	before func(cluster, uid string) error
}

func (g *gate) Admit(_ context.Context, cluster, uid string) error {
	if g.before != nil {
		if err := g.before(cluster, uid); err != nil {
			return err
		}
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.admitted = append(g.admitted, cluster+"."+uid)
	return nil
}

func (g *gate) Revoke(_ context.Context, cluster, uid string) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.admitted = slices.DeleteFunc(g.admitted, func(s string) bool { return s == cluster+"."+uid })
	return nil
}

func (g *gate) in(cluster, uid string) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return slices.Contains(g.admitted, cluster+"."+uid)
}

func (g *gate) Sign(key crypto.PublicKey, cluster, uid string) ([]byte, time.Time, error) {
	a := clusters.EtcdAccess{Authority: g.authority}
	return a.Sign(key, cluster, uid)
}

func (g *gate) Trust() ([]byte, []string) {
	return g.authority.CertPEM(), []string{"https://etcd.example.org:2379"}
}

// clock is a time that a test moves.
type clock struct {
	mu sync.Mutex
	at time.Time
}

func (c *clock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.at
}

func (c *clock) pass(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.at = c.at.Add(d)
}

// joining is a world in which clusters join.
type joining struct {
	*world
	gate  *gate
	clock *clock
}

func newJoining(t *testing.T) *joining {
	t.Helper()
	c := &clock{at: time.Now()}
	authority, err := pki.LoadOrCreate(filepath.Join(t.TempDir(), "pki"), "clients", c.now)
	if err != nil {
		t.Fatal(err)
	}
	g := &gate{authority: authority}
	return &joining{gate: g, clock: c, world: newWorld(t, func(cfg *controlplane.Config) { cfg.Access, cfg.Now = g, c.now })}
}

func (j *joining) token(cluster string, replace bool) string {
	j.t.Helper()
	token, err := j.Clusters.IssueJoin(j.t.Context(), admin, cluster, replace)
	if err != nil {
		j.t.Fatal(err)
	}
	return token.Token
}

func (j *joining) registration(cluster string) *record.Cluster {
	j.t.Helper()
	kv, err := j.store.Get(j.t.Context(), record.ClusterKey(cluster))
	if err != nil {
		j.t.Fatal(err)
	}
	reg, err := store.Decode[record.Cluster](kv)
	if err != nil {
		j.t.Fatal(err)
	}
	return reg
}

// machine is who joins.
type machine struct {
	t       *testing.T
	key     *ecdsa.PrivateKey
	request v1.Join
}

func newMachine(t *testing.T, cluster, token string) *machine {
	t.Helper()
	key, err := pki.NewKey()
	if err != nil {
		t.Fatal(err)
	}
	age, err := seal.Generate()
	if err != nil {
		t.Fatal(err)
	}
	m := &machine{t: t, key: key, request: v1.Join{
		Token: token, ClusterID: cluster, Recipient: age.Recipient(), KubeSystemUID: "0c1d-kube-" + cluster,
	}}
	m.request.CSR = m.csr("")
	return m
}

// newJoined is a machine that has joined as the syncer of cluster a.
func newJoined(t *testing.T) (*joining, *machine, *v1.Enrolment) {
	t.Helper()
	j := newJoining(t)
	m := newMachine(t, "a", j.token("a", false))
	got, err := j.Clusters.Join(t.Context(), m.request)
	if err != nil {
		t.Fatal(err)
	}
	return j, m, got
}

func (m *machine) csr(name string) string {
	m.t.Helper()
	text, err := pki.NewRequest(m.key, name)
	if err != nil {
		m.t.Fatal(err)
	}
	return string(text)
}

func (m *machine) renew(cp *controlplane.ControlPlane, uid string) (*v1.Enrolment, error) {
	m.t.Helper()
	challenge, _, err := cp.Clusters.Challenge()
	if err != nil {
		m.t.Fatal(err)
	}
	return cp.Clusters.Renew(m.t.Context(), v1.JoinRenewal{
		ClusterID: m.request.ClusterID, ClusterUID: uid, CSR: m.csr(challenge), KubeSystemUID: m.request.KubeSystemUID,
	})
}

func certificate(t *testing.T, e *v1.Enrolment) *x509.Certificate {
	t.Helper()
	block, _ := pem.Decode([]byte(e.Certificate))
	if block == nil {
		t.Fatal("the certificate is no PEM")
	}
	cert, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	return cert
}

func refused(t *testing.T, what string, err error, code fault.Code, says string) {
	t.Helper()
	if e, ok := errors.AsType[*fault.Error](err); !ok || e.Code != code || !strings.Contains(e.Message, says) {
		t.Errorf("%s: %v; want %s with %q", what, err, code, says)
	}
}
