package ha_test

import (
	"context"
	"fmt"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/oscarfed/oscarfed/api/client"
	"github.com/oscarfed/oscarfed/store"
	"github.com/oscarfed/oscarfed/store/storetest"
	"github.com/oscarfed/oscarfed/test/process"
)

// throughputVar is how long each arrangement is asked for creations, such as 20s.
const throughputVar = "HATHROUGHPUT"

// callers create services at the same time.
const callers = 16

// TestThroughputBesideOne counts the creations that become ready in a time with three control planes
// over three members of etcd, beside one over three and one over one. Every creation has to succeed;
// make bench BENCH=instances prints the figures.
func TestThroughputBesideOne(t *testing.T) {
	lasts := time.Second
	if s := os.Getenv(throughputVar); s != "" {
		var err error
		if lasts, err = time.ParseDuration(s); err != nil {
			t.Fatalf("%s: %v", throughputVar, err)
		}
	}
	var one float64
	for _, a := range []struct{ controlPlanes, members int }{{1, 1}, {1, 3}, {3, 3}} {
		t.Run(fmt.Sprintf("%d over %d", a.controlPlanes, a.members), func(t *testing.T) {
			rate := throughput(t, a.controlPlanes, a.members, lasts)
			if one == 0 {
				one = rate
			}
			t.Logf("%d control planes, %d members of etcd: %.2f of the creations of one over one (%.0f a second)", a.controlPlanes, a.members, rate/one, rate)
		})
	}
}

// throughput is how many creations a second become ready, through all control planes in turns.
func throughput(t *testing.T, controlPlanes, members int, lasts time.Duration) float64 {
	etcd := process.StartMembers(t, members, nil)
	endpoints := "--etcd-endpoints=" + strings.Join(etcd.Endpoints(), ",")
	f := process.New(t, process.Config{
		Clusters: clusters, Canaries: []string{"made"}, Store: storetest.Open(t, store.Config{Endpoints: etcd.Endpoints()}),
		Flags: func(string) []string { return []string{endpoints} },
	})
	if err := f.Start(t.Context(), controlPlanes); err != nil {
		t.Fatal(err)
	}
	var made atomic.Int64
	round := func(lasts time.Duration) time.Duration {
		began := time.Now()
		ctx, stop := context.WithTimeout(t.Context(), lasts)
		defer stop()
		var all sync.WaitGroup
		for i := range callers {
			all.Go(func() {
				for ctx.Err() == nil {
					n := int(made.Add(1))
					s := service(fmt.Sprintf("made-%d", n), clusters[n%len(clusters)])
					if _, err := f.API(process.ControlPlaneName(i%controlPlanes)).CreateService(t.Context(), s, client.CreateOptions{}); err != nil {
						t.Error(err)
						return
					}
				}
			})
		}
		all.Wait()
		return time.Since(began)
	}
	round(lasts / 4) // warms up
	before := made.Load()
	took := round(lasts)
	return float64(made.Load()-before) / took.Seconds()
}
