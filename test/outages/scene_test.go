//go:build linux

package outages_test

import (
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/oscarfed/oscarfed/api/client"
	v1 "github.com/oscarfed/oscarfed/api/v1"
	"github.com/oscarfed/oscarfed/internal/clock"
	"github.com/oscarfed/oscarfed/internal/oscarsim"
	"github.com/oscarfed/oscarfed/internal/pki"
	"github.com/oscarfed/oscarfed/store"
	"github.com/oscarfed/oscarfed/store/access"
	"github.com/oscarfed/oscarfed/store/storetest"
	"github.com/oscarfed/oscarfed/test/await"
	"github.com/oscarfed/oscarfed/test/machines"
	"github.com/oscarfed/oscarfed/test/process"
)

func TestMain(m *testing.M) { os.Exit(machines.Main(func() int { return process.Main(m) })) }

const (
	controlPlanes = 3
	members       = 3
	// disk is that of each machine, in bytes. A member of etcd takes 128 MiB for its log at once.
	disk        = 512 << 20
	metricsPort = 9090
	apiPort     = 8080
	// authorityAge is how old the authority of etcd is, and its certificates are.
	authorityAge = 48 * time.Hour
)

var clusters = []string{"a", "b", "c"}

// readiness is as the chart has it.
var readiness = process.Readiness{Path: "/health", Period: 5 * time.Second, Timeout: 5 * time.Second, Failures: 2}

// scene is a federation whose control planes and members of etcd have a machine each, and a service on
// three clusters. Syncers and OSCARs are where the test is.
type scene struct {
	*process.Federation
	t *testing.T
	// authority signs for etcd and its users; dir is its folder.
	authority *pki.Authority
	dir       string
	etcd      *process.Members
	// hosts are the machines of etcd, then those of the control planes.
	hosts []*machines.Machine
	// ahead is how far the clocks of programs are ahead, when they are started.
	ahead map[string]time.Duration
	// balancer is the URL that callers use.
	balancer string

	// apart is the machine that the fault is on, broken its program, and restart starts that again.
	apart   *machines.Machine
	broken  func() *process.Child
	restart func() error
	// supervised ends the supervision of that program; nil when there is none.
	supervised func()
}

// steady is the service that is read, and that jobs are for.
const steady = "steady"

func newScene(t *testing.T) *scene {
	t.Helper()
	network := machines.NewNetwork(t)
	s := &scene{t: t, ahead: map[string]time.Duration{}, dir: t.TempDir()}
	for range members + controlPlanes {
		s.hosts = append(s.hosts, network.Machine(disk))
	}
	s.startEtcd()
	s.Federation = process.New(t, process.Config{
		Clusters: clusters, Canaries: []string{steady}, Store: storetest.Open(t, s.as(access.ControlPlane)),
		Workload: &oscarsim.Workload{Seed: 1, Min: 10 * time.Millisecond, Max: 100 * time.Millisecond}, Ahead: s.ahead,
		Machine: func(program string) process.Machine {
			if m := s.host(program); m != nil {
				return m
			}
			return nil
		},
		Flags: s.flags,
	})
	for k := range controlPlanes {
		if _, err := s.StartControlPlane(t.Context(), process.ControlPlaneName(k), ""); err != nil {
			t.Fatal(err)
		}
	}
	s.balancer = "http://" + process.NewBalancer(t, process.BalancerConfig{
		Instances: func() []string { return s.Hosts(controlPlanes) }, Readiness: &readiness,
	})
	if err := s.Start(t.Context(), 0); err != nil {
		t.Fatal(err)
	}
	c := s.client(client.DefaultTries, 0)
	if _, err := c.CreateService(t.Context(), service(t, steady, clusters...), client.CreateOptions{IdempotencyKey: steady, Wait: time.Minute}); err != nil {
		t.Fatal(err)
	}
	return s
}

// startEtcd starts the members, with users.
func (s *scene) startEtcd() {
	s.t.Helper()
	var err error
	// An authority is older than the faults.
	if s.authority, err = pki.LoadOrCreate(s.dir, "test authority", clock.Ahead(-authorityAge)); err != nil {
		s.t.Fatal(err)
	}
	var places []process.Place
	addresses := []string{"127.0.0.1"}
	for _, m := range s.hosts[:members] {
		places = append(places, process.Place{Machine: m, Address: m.Address(), Disk: m.Disk()})
		addresses = append(addresses, m.Address())
	}
	certificate := filepath.Join(s.dir, "server.pem")
	_, err = s.authority.Server(pki.ServerConfig{File: certificate, Hosts: addresses, Life: 2 * authorityAge, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		s.t.Fatal(err)
	}
	s.etcd = process.StartMembersOn(s.t, places, certificate, s.ca())
	if err := access.New(storetest.Open(s.t, s.as(access.Root))).SetUp(s.t.Context()); err != nil {
		s.t.Fatal(err)
	}
}

func (s *scene) ca() string { return filepath.Join(s.dir, pki.AuthorityCertFile) }

// as is how a user connects to etcd.
func (s *scene) as(user string) store.Config {
	return store.Config{Endpoints: s.etcd.Endpoints(), CAFile: s.ca(), Certificate: s.authority.Client(user, 2*authorityAge).Certificate}
}

// host is the machine of a control plane; nil for other programs.
func (s *scene) host(program string) *machines.Machine {
	for k := range controlPlanes {
		if program == process.ControlPlaneName(k) {
			return s.hosts[members+k]
		}
	}
	return nil
}

// flags of a program. A syncer joins as an operator has it join.
func (s *scene) flags(program string) []string {
	m := s.host(program)
	if m != nil {
		return []string{
			"--etcd-endpoints=" + strings.Join(s.etcd.Endpoints(), ","), "--etcd-authority=" + s.dir, "--etcd-ca-file=" + s.ca(),
			fmt.Sprintf("--listen=%s:%d", m.Address(), apiPort), "--insecure-http",
			fmt.Sprintf("--metrics-listen=%s:%d", m.Address(), metricsPort), "--data-dir=" + filepath.Join(m.Disk(), "data"),
		}
	}
	token, err := s.API(process.ControlPlaneName(0)).IssueJoin(s.t.Context(), program, v1.JoinRequest{})
	if err != nil {
		s.t.Fatal(err)
	}
	file := filepath.Join(s.t.TempDir(), "token")
	if err := os.WriteFile(file, []byte(token.Token), 0o600); err != nil {
		s.t.Fatal(err)
	}
	return []string{"--control-plane=" + s.balancer, "--session-ttl=30s", "--join-token-file=" + file, fmt.Sprintf("--metrics-listen=127.0.0.1:%d", syncerPort(program))}
}

func syncerPort(cluster string) int {
	for i, id := range clusters {
		if id == cluster {
			return metricsPort + 1 + i
		}
	}
	return 0
}

// targets are what Prometheus would scrape: the job and the instance of each address.
func (s *scene) targets() map[string][2]string {
	out := map[string][2]string{}
	for k := range controlPlanes {
		out[fmt.Sprintf("%s:%d", s.hosts[members+k].Address(), metricsPort)] = [2]string{"oscar-controlplane", process.ControlPlaneName(k)}
	}
	for _, id := range clusters {
		out[fmt.Sprintf("127.0.0.1:%d", syncerPort(id))] = [2]string{"oscar-syncer", id}
	}
	return out
}

// client calls through the balancer.
func (s *scene) client(tries int, timeout time.Duration) *client.Client {
	s.t.Helper()
	c, err := client.New(client.Config{Endpoint: s.balancer, User: process.User, Password: process.Password, Tries: tries, Timeout: timeout})
	if err != nil {
		s.t.Fatal(err)
	}
	return c
}

// leader is the place of the member of etcd that leads.
func (s *scene) leader() (place int) {
	s.t.Helper()
	c, err := store.Dial(s.as(access.Root))
	if err != nil {
		s.t.Fatal(err)
	}
	defer func() { _ = c.Close() }()
	await.Until(s.t, "a member leads", func() bool {
		for i, endpoint := range s.etcd.Endpoints() {
			if status, err := c.Status(s.t.Context(), endpoint); err == nil && status.Header.MemberId == status.Leader {
				place = i
				return true
			}
		}
		return false
	})
	return place
}
