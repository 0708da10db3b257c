package linear

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/oscarfed/oscarfed/store"
	"github.com/oscarfed/oscarfed/store/storetest"
	"github.com/oscarfed/oscarfed/test/invariants"
	"github.com/oscarfed/oscarfed/test/process"
)

// etcdMembers and controlPlanes are how many run.
const (
	etcdMembers   = 3
	controlPlanes = 2
)

// World is a federation of processes over three members of etcd, with two control planes.
// Every link to etcd, and between its members, can be disturbed.
type World struct {
	*process.Federation
	clusters []string
	etcd     *process.Members
	// store reads by links of its own, which are never disturbed.
	store  *store.Store
	replay *invariants.Replay
	net    *network
	// peers are the ways to each member from the others, links those from each
	// program to each member.
	peers []*link
	links map[string][]*link
}

// New starts a world and waits until every cluster can be placed on. At the end of
// the test the ends of the programs' logs are written below logs if it has failed.
func New(t testing.TB, logs string, clusters ...string) *World {
	t.Helper()
	w := &World{clusters: clusters, net: newNetwork(t), links: map[string][]*link{}}
	w.etcd = process.StartMembers(t, etcdMembers, func(listen string) string {
		l := w.net.link("peer "+listen, listen)
		w.peers = append(w.peers, l)
		return l.address()
	})
	w.store = storetest.Open(t, store.Config{Endpoints: w.etcd.Endpoints()})
	var err error
	if w.replay, err = invariants.NewReplay(invariants.Options{Fenced: true}); err != nil {
		t.Fatal(err)
	}
	flags := map[string][]string{}
	for k := range controlPlanes {
		name := process.ControlPlaneName(k)
		flags[name] = []string{"--etcd-endpoints=" + w.link(name), "--prepare-deadline=5s", "--apply-grace=10s"}
	}
	for _, id := range clusters {
		flags[id] = []string{"--etcd-endpoints=" + w.link(id), "--resync=2s"}
	}
	w.Federation = process.New(t, process.Config{
		Clusters: clusters, Canaries: []string{"history"}, Store: w.store, Logs: logs,
		Flags: func(program string) []string { return slices.Clone(flags[program]) },
	})
	if err := w.Start(t.Context(), controlPlanes); err != nil {
		t.Fatal(err)
	}
	if err := w.Settle(t.Context()); err != nil {
		t.Fatal(err)
	}
	return w
}

// link makes the links by which a program reaches etcd.
func (w *World) link(program string) string {
	var out []string
	for i, address := range w.etcd.Addresses() {
		l := w.net.link(fmt.Sprintf("%s to m%d", program, i), address)
		w.links[program] = append(w.links[program], l)
		out = append(out, "http://"+l.address())
	}
	return strings.Join(out, ",")
}

// restart starts a control plane, or the syncer of a cluster, that was killed.
func (w *World) restart(ctx context.Context, program string) error {
	if slices.Contains(w.clusters, program) {
		return w.StartSyncer(program, "")
	}
	_, err := w.StartControlPlane(ctx, program, "")
	return err
}

// Settle waits until every cluster has a syncer, nothing is in flight and no
// tombstone waits.
func (w *World) Settle(ctx context.Context) error {
	for _, id := range w.clusters {
		if err := w.AwaitSyncer(ctx, id); err != nil {
			return err
		}
	}
	return w.AwaitSettled(ctx)
}

// Advance checks all revisions so far, and makes etcd forget them: a watch that was
// broken meanwhile must list again.
func (w *World) Advance(ctx context.Context) error {
	revision, err := w.replay.Advance(ctx, w.store)
	if err != nil {
		return err
	}
	etcd, err := clientv3.New(clientv3.Config{Endpoints: w.etcd.Endpoints(), DialTimeout: 5 * time.Second})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	_, err = etcd.Compact(ctx, revision)
	return errors.Join(err, etcd.Close())
}

// Report checks what is left of the history.
func (w *World) Report(ctx context.Context) (*invariants.Report, error) {
	return w.replay.Finish(ctx, w.store)
}

// links of one program to all members, or to one of them.
func (w *World) some(program string, rng *rand.Rand) []*link {
	all := w.links[program]
	if rng.IntN(3) == 0 {
		return all[:1+rng.IntN(len(all))]
	}
	return all
}
