// Package jobs_test proves that jobs are neither lost nor started twice, whatever dies
// meanwhile: many jobs over ten simulated clusters, with seeded faults. Starts are
// counted by the simulated OSCARs, which know nothing of attempts.
//
// JOBS says how many (make proof-jobs: 100,000), JOBSEED repeats the draws of a run;
// what happens at the same time is up to the machine.
package jobs_test

import (
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/oscarfed/oscarfed/controlplane"
	"github.com/oscarfed/oscarfed/internal/oscarsim"
	"github.com/oscarfed/oscarfed/store/embedded"
	"github.com/oscarfed/oscarfed/syncer"
	"github.com/oscarfed/oscarfed/syncer/token"
	"github.com/oscarfed/oscarfed/test/world"
)

const (
	clusterCount    = 10
	federationCount = 4
	defaultJobs     = 200
)

// proof is one run.
type proof struct {
	*world.World
	t    *testing.T
	seed uint64
	jobs int
	ids  []string // of the clusters
	planes
	users *users
	// tokens are the services' own, by federation.
	tokens []string
	began  time.Time
}

func number(t *testing.T, name string, otherwise uint64) uint64 {
	t.Helper()
	text := os.Getenv(name)
	if text == "" {
		return otherwise
	}
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return n
}

func TestJobsAreNeitherLostNorStartedTwice(t *testing.T) {
	p := &proof{t: t, seed: number(t, "JOBSEED", uint64(time.Now().UnixNano())), jobs: int(number(t, "JOBS", defaultJobs))}
	t.Logf("JOBS=%d JOBSEED=%d", p.jobs, p.seed)
	for i := range clusterCount {
		p.ids = append(p.ids, fmt.Sprintf("oscar-cluster-%c", 'a'+i))
	}
	quiet := slog.New(slog.DiscardHandler)
	p.users = newUsers(p)
	p.World = world.New(t, world.Options{
		Clusters: p.ids, Restorable: true, Unguarded: true, Issuer: p.users.issuer, Names: []string{"canary"},
		Etcd: func(c *embedded.Config) { c.Logger = quiet },
		Sim: func(c *oscarsim.Config) {
			c.Workload = &oscarsim.Workload{Seed: p.seed, Min: 20 * time.Millisecond, Max: 500 * time.Millisecond, Fails: 0.02}
			c.Nodes = []oscarsim.Node{{Name: "n", CPU: 400_000, Memory: 1 << 40}} // 800 at a time
		},
		ControlPlane: func(c *controlplane.Config) {
			c.Logger, c.LostAfter, c.KeepJobsEach = quiet, time.Second, p.jobs+1
			c.JobsPerUser, c.JobsPerFederation = 1<<30, 1<<30
		},
		Syncer: func(c *syncer.Config) {
			c.Logger, c.Jobs.Timeout, c.StopGrace = quiet, time.Second, time.Second
			c.Resync, c.Jobs.Poll, c.Jobs.Posts = 2*time.Second, 200*time.Millisecond, 8
			c.Vault, c.Issuers = p.users.vaults[c.ClusterID], []token.Issuer{{URL: p.users.issuer.URL, ClientID: "oscarfed"}}
		},
	})
	check := p.checks(p.Store, false)
	p.planes.start(p.World)
	for i := range federationCount {
		p.create(i)
		service, _ := p.Cluster(p.ids[i]).Sim.Service(p.name(i))
		p.tokens = append(p.tokens, service.Token)
	}
	p.began = time.Now()
	l := newLoad(p)
	n := newNemesis(p, l, check)
	n.start()
	l.run(n)
	submitted := time.Since(p.began)
	n.stop()
	healed := time.Since(p.began)
	ended := p.settle(l)
	p.whole()
	p.audit(l, n, submitted, healed, ended)
	n.check.finish()
}

// name of the service that a federation is submitted to.
func (p *proof) name(i int) string { return replica(i, i) }

func (p *proof) rand(stream uint64) *rand.Rand {
	return rand.New(rand.NewPCG(p.seed, stream))
}
