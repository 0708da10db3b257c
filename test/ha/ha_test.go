package ha_test

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/oscarfed/oscarfed/store"
	"github.com/oscarfed/oscarfed/store/storetest"
	"github.com/oscarfed/oscarfed/test/process"
)

func TestMain(m *testing.M) { os.Exit(process.Main(m)) }

// The form of a proof. Without a time it is short, with one kill of each kind.
const (
	timeVar = "HATIME" // such as 10m
	seedVar = "HASEED"
)

// members, controlPlanes and clusters are how many run.
const (
	members       = 3
	controlPlanes = 3
)

var clusters = []string{"a", "b", "c"}

// plan is how long a proof takes, and what happens in it.
type plan struct {
	seed uint64
	// lasts is how long clients call, rate how often a second.
	lasts time.Duration
	rate  int
	// every is the time from one kill to the next, away how long what is killed is away.
	every, away time.Duration
}

func planned(t *testing.T) plan {
	t.Helper()
	p := plan{seed: uint64(time.Now().UnixMilli()), lasts: 6 * time.Second, rate: 50, every: 2 * time.Second, away: 2 * time.Second}
	var err error
	if s := os.Getenv(timeVar); s != "" {
		p.rate, p.every, p.away = 200, 20*time.Second, 5*time.Second
		if p.lasts, err = time.ParseDuration(s); err != nil {
			t.Fatalf("%s: %v", timeVar, err)
		}
	}
	if s := os.Getenv(seedVar); s != "" {
		if p.seed, err = strconv.ParseUint(s, 10, 64); err != nil {
			t.Fatalf("%s: %v", seedVar, err)
		}
	}
	return p
}

// TestAcceptedWritesSurvive kills the leader of etcd, and a control plane at the same time, while
// clients read, create and delete. Each client goes on to the next control plane when one does
// not answer, under the same key. What was accepted stands in the end.
func TestAcceptedWritesSurvive(t *testing.T) {
	p := planned(t)
	rng := rand.New(rand.NewPCG(p.seed, 0))
	etcd := process.StartMembers(t, members, nil)
	endpoints := "--etcd-endpoints=" + strings.Join(etcd.Endpoints(), ",")
	f := process.New(t, process.Config{
		Clusters: clusters, Canaries: []string{"ha"}, Store: storetest.Open(t, store.Config{Endpoints: etcd.Endpoints()}),
		Flags: func(string) []string { return []string{endpoints} },
	})
	if err := f.Start(t.Context(), controlPlanes); err != nil {
		t.Fatal(err)
	}
	l := &load{federation: f, seed: p.seed}
	l.write(t.Context(), 0) // what is read
	if len(l.created) != 1 {
		t.Fatal("the first service is not accepted")
	}

	ctx, stop := context.WithTimeout(t.Context(), p.lasts)
	defer stop()
	var all sync.WaitGroup
	kills := 0
	all.Go(func() {
		for pause(ctx, p.every) {
			if err := killed(t, f, etcd, rng, p.away); err != nil {
				t.Error(err)
				return
			}
			kills++
		}
	})
	l.run(ctx, p.rate)
	all.Wait()

	if err := f.AwaitSettled(t.Context()); err != nil {
		t.Fatal(err)
	}
	lost := l.lost(t)
	t.Logf("seed %d: %s at %d calls a second; %d times etcd's leader and a control plane killed", p.seed, p.lasts, p.rate, kills)
	t.Logf("accepted writes: %d creations, %d deletions; lost: %d", len(l.created)+len(l.deleted), len(l.deleted), lost)
	t.Log(l.figures())
	if kills == 0 {
		t.Error("nothing was killed")
	}
	if lost > 0 {
		t.Errorf("%d accepted writes are lost", lost)
	}
}

// killed kills the member of etcd that leads, and a control plane, and starts both again.
func killed(t *testing.T, f *process.Federation, etcd *process.Members, rng *rand.Rand, away time.Duration) error {
	leader := storetest.Leader(t, etcd.Endpoints())
	name := process.ControlPlaneName(rng.IntN(controlPlanes))
	member := 0
	for i, endpoint := range etcd.Endpoints() {
		if endpoint == leader {
			member = i
		}
	}
	f.Child(name).Kill()
	etcd.Kill(member)
	pause(t.Context(), away)
	err := etcd.Restart(member)
	_, started := f.StartControlPlane(t.Context(), name, "")
	return cmp.Or(err, started)
}

// pause waits for a time, and says whether it has passed.
func pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

func name(seed uint64, n int) string { return fmt.Sprintf("ha-%d-%d", seed, n) }
