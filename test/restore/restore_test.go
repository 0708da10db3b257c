// Package restore_test puts whole federations back to an older backup of their store,
// with everything real but the OSCARs.
package restore_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/oscarfed/oscarfed/api/client"
	"github.com/oscarfed/oscarfed/api/oscar"
	"github.com/oscarfed/oscarfed/controlplane"
	"github.com/oscarfed/oscarfed/controlplane/federations"
	"github.com/oscarfed/oscarfed/controlplane/identity"
	"github.com/oscarfed/oscarfed/store"
	"github.com/oscarfed/oscarfed/store/record"
	"github.com/oscarfed/oscarfed/test/await"
	"github.com/oscarfed/oscarfed/test/wire"
	"github.com/oscarfed/oscarfed/test/world"
)

const (
	a = "oscar-cluster-a"
	b = "oscar-cluster-b"
	c = "oscar-cluster-c"
	d = "oscar-cluster-d"
)

var (
	all   = []string{a, b, c, d}
	admin = identity.Caller{Subject: identity.Admin, Administrator: true}
)

const secret = "canary-environment-secret"

// definition of a federation of that name over a, b and c: <name>0, <name>1, <name>2.
func definition(t testing.TB, name, memory string) *oscar.Service {
	t.Helper()
	text := strings.NewReplacer("NAME", name, "MEMORY", memory, "SECRET", secret).Replace(
		`{"name":"NAME0","cluster_id":"oscar-cluster-a","image":"ghcr.io/grycap/imagemagick","cpu":"0.5","memory":"MEMORY",
"script":"#!/bin/sh\n","environment":{"variables":{"SIZE":"10"},"secrets":{"KEY":"SECRET"}},
"federation":{"topology":"star","delegation":"random","members":[
{"type":"oscar","cluster_id":"oscar-cluster-b","service_name":"NAME1"},
{"type":"oscar","cluster_id":"oscar-cluster-c","service_name":"NAME2"}]},
"input":[{"storage_provider":"minio.default","path":"NAME0/in"}],"output":[{"storage_provider":"minio.default","path":"NAME0/out"}]}`)
	return world.Service(t, text)
}

// tale is a world whose store was put back: since the backup, federation changed was
// changed, deleted deleted, created created, and grown got a member on d; same stayed
// as it was.
type tale struct {
	*world.World
	backup string
	// before counts the requests for changes that each cluster had at the restore.
	before map[string]int
}

func tell(t *testing.T) *tale {
	t.Helper()
	w := world.New(t, world.Options{Wire: wire.New(1), Clusters: all, Restorable: true, Secrets: []string{secret}, Names: []string{"created0", "changed0"}})
	s := &tale{World: w, before: map[string]int{}}
	for _, name := range []string{"same", "changed", "deleted", "grown"} {
		s.create(name)
	}
	s.backup = w.Backup()
	s.change("changed", "1Gi")
	if _, err := w.Client.DeleteService(t.Context(), "deleted0", client.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	s.create("created")
	if _, err := w.CP.Federations.ChangeReplicas(t.Context(), admin, "grown0", federations.ReplicasRequest{
		Add: []oscar.Member{{Type: "oscar", ClusterID: d, ServiceName: "grown3"}}, Wait: await.Limit,
	}); err != nil {
		t.Fatal(err)
	}
	w.Eventually("everything is quiet", func() bool {
		return len(w.Keys(record.DeletedPrefix)) == 3 && slices.Contains(w.Cluster(d).Sim.Services(), "grown3")
	})
	return s
}

func (s *tale) create(name string) {
	s.T.Helper()
	if _, err := s.Client.CreateService(s.T.Context(), definition(s.T, name, "0.5Gi"), client.CreateOptions{Wait: await.Limit}); err != nil {
		s.T.Fatal(err)
	}
}

func (s *tale) change(name, memory string) {
	s.T.Helper()
	if _, err := s.Client.ChangeService(s.T.Context(), definition(s.T, name, memory), client.ChangeOptions{Wait: await.Limit}); err != nil {
		s.T.Fatal(err)
	}
}

// count remembers what was asked of the OSCARs up to now.
func (s *tale) count() {
	for _, id := range all {
		s.before[id] = s.Cluster(id).Changes()
	}
}

// untouched fails the test when anything was asked of an OSCAR since count.
func (s *tale) untouched() {
	s.T.Helper()
	for _, id := range all {
		if log := s.Cluster(id).Sim.Log(); len(log) != s.before[id] {
			s.T.Errorf("%s was asked to change something: %+v", id, log[s.before[id]:])
		}
	}
}

func get[T any](s *tale, key string) *T {
	s.T.Helper()
	kv, err := s.Store.Get(s.T.Context(), key)
	if err != nil {
		return new(T)
	}
	v, err := store.Decode[T](kv)
	if err != nil {
		s.T.Fatal(err)
	}
	return v
}

// compared says whether every cluster has compared everything in the present epoch.
func (s *tale) compared(ids ...string) bool {
	epoch := get[record.Meta](s, record.MetaKey).Word()
	for _, id := range ids {
		if epoch == "" || get[record.ObservedCluster](s, record.ObservedClusterKey(id)).Epoch != epoch {
			return false
		}
		for _, key := range s.Keys(record.DesiredServicesPrefix(id)) {
			if get[record.Observed](s, record.ObservedServiceKey(id, record.ParseKey(key).Name)).Epoch != epoch {
				return false
			}
		}
	}
	return true
}

// differences are what the clusters hold, as cluster/service kind generation.
func (s *tale) differences() []string {
	out := []string{}
	for _, id := range all {
		for _, key := range s.Keys(record.ObservedServicesPrefix(id)) {
			if h := get[record.Observed](s, key).Held; h != nil {
				out = append(out, fmt.Sprintf("%s/%s %s %d", id, record.ParseKey(key).Name, h.Kind, h.Generation))
			}
		}
		for _, o := range get[record.ObservedCluster](s, record.ObservedClusterKey(id)).Orphans {
			out = append(out, fmt.Sprintf("%s/%s orphan %d", id, o.ServiceName, o.Generation))
		}
	}
	slices.Sort(out)
	return out
}

var expected = []string{
	a + "/changed0 ahead 2", a + "/created0 orphan 1", a + "/deleted0 missing 0", a + "/grown0 ahead 2",
	b + "/changed1 ahead 2", b + "/created1 orphan 1", b + "/deleted1 missing 0", b + "/grown1 ahead 2",
	c + "/changed2 ahead 2", c + "/created2 orphan 1", c + "/deleted2 missing 0", c + "/grown2 ahead 2",
	d + "/grown3 orphan 2",
}

// listed waits until every cluster has compared, and demands that all differences
// are known and that nothing was done about them.
func (s *tale) listed() {
	s.T.Helper()
	s.Eventually("every cluster has compared in the new epoch", func() bool { return s.compared(all...) })
	if got := s.differences(); !slices.Equal(got, expected) {
		s.T.Errorf("held:\n%s\nwant:\n%s", strings.Join(got, "\n"), strings.Join(expected, "\n"))
	}
	s.untouched()
}

// restartSyncers puts the store back without a control plane. One syncer runs on, one is stopped before it and two are
// killed, and started after it: what is on their disks tells them of it.
func (s *tale) restartSyncers(bump bool) {
	s.T.Helper()
	s.Cluster(b).Stop()
	s.Cluster(c).Kill()
	s.Cluster(d).Kill()
	s.RestoreEtcd(s.backup, bump)
	for _, id := range []string{b, c, d} {
		s.Cluster(id).Start()
	}
	for _, id := range all {
		s.Eventually(id+" says that the store was restored", func() bool {
			return get[record.ObservedCluster](s, record.ObservedClusterKey(id)).Reason == record.ReasonStoreRestored
		})
	}
	s.untouched()
}

// TestAStoreThatWentBackIsNoticedAndNothingIsTouched: with and without raised
// revisions; seen by a control plane that runs, by one that starts with its witness,
// and told to one that knows nothing.
func TestAStoreThatWentBackIsNoticedAndNothingIsTouched(t *testing.T) {
	t.Parallel()
	for _, bump := range []bool{true, false} {
		for how, restore := range map[string]func(s *tale){
			"while everybody runs": func(s *tale) { s.RestoreEtcd(s.backup, bump) },
			"while it was down": func(s *tale) {
				s.StopControlPlane(s.CP)
				s.RestoreEtcd(s.backup, bump)
				s.Restart()
			},
			"while everybody was down": func(s *tale) {
				s.StopControlPlane(s.CP)
				for _, id := range all {
					s.Cluster(id).Stop()
				}
				s.RestoreEtcd(s.backup, bump)
				s.Restart()
				for _, id := range all {
					s.Cluster(id).Start()
				}
			},
			"before a control plane was back": func(s *tale) {
				s.StopControlPlane(s.CP)
				s.restartSyncers(bump)
				s.Restart()
			},
			"twice": func(s *tale) {
				s.RestoreEtcd(s.backup, bump)
				s.listed()
				s.StopControlPlane(s.CP)
				s.restartSyncers(bump)
				s.Restart()
			},
			"to one that knows nothing": func(s *tale) {
				s.StopControlPlane(s.CP)
				s.RestoreEtcd(s.backup, bump)
				s.Restart(func(c *controlplane.Config) { c.Witness, c.Restored = s.T.TempDir()+"/witness.json", true })
			},
		} {
			t.Run(fmt.Sprintf("%s, bump %v", how, bump), func(t *testing.T) {
				await.InVirtualTime(t, func(t *testing.T) {
					s := tell(t)
					s.count()
					restore(s)
					s.listed()
				})
			})
		}
	}
}
