package faults_test

import (
	"errors"
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/oscarfed/oscarfed/controlplane"
	"github.com/oscarfed/oscarfed/store"
	"github.com/oscarfed/oscarfed/store/record"
	"github.com/oscarfed/oscarfed/test/await"
	"github.com/oscarfed/oscarfed/test/invariants"
	"github.com/oscarfed/oscarfed/test/world"
)

// hostile is an attacker with the credentials of one cluster's syncer: he holds its
// session, and writes what he likes below its observed prefix.
type hostile struct {
	w  *world.World
	id string
}

func (h hostile) write(key, value string) {
	h.w.T.Helper()
	_, err := h.w.Store.Update(h.w.T.Context(), store.Update{Keys: []string{key}, Build: func(_ store.View, tx *store.Txn) error {
		tx.PutBytes(key, []byte(value))
		return nil
	}})
	if err != nil {
		h.w.T.Fatalf("%.80s: %v", value, err)
	}
}

func (h hostile) report(service, value string) {
	h.w.T.Helper()
	h.write(record.ObservedServiceKey(h.id, service), value)
}

// TestAHostileSyncer forges what one cluster can say: reports that are malformed, too
// large, of another generation, revision, life or cluster; votes that answer another
// question; orphans that are somebody else's. It harms what is on its own cluster and
// nothing else: no other cluster is written to, nothing is decided by its forgeries,
// and every answer of the API stays well formed.
func TestAHostileSyncer(t *testing.T) {
	await.InVirtualTime(t, func(t *testing.T) {
		const c = "oscar-cluster-c"
		clock := &world.Clock{}
		w := newWorld(t, world.Options{
			// The forgeries themselves are found, as they should be.
			Breaks:       []invariants.Rule{invariants.RuleRecords, invariants.RuleStatus, invariants.RuleVotes},
			ControlPlane: func(cfg *controlplane.Config) { cfg.Now = clock.Now },
		})
		mustCreate(w, "alpha")
		mustCreate(w, "gamma")
		w.Cluster(c).Stop()
		session, err := w.Store.OpenSession(t.Context(), store.SessionConfig{
			Key: record.SessionKey(c), Record: record.Session{V: record.Version, Instance: "hostile", StartedAt: record.At(time.Now())}, TTL: time.Minute,
		})
		if err != nil {
			t.Fatal(err)
		}
		fed, err := w.Client.Replicas(t.Context(), "alpha0", "")
		if err != nil {
			t.Fatal(err)
		}
		uids := map[string]string{}
		for cluster, svc := range replicasOf("alpha") {
			uids[cluster] = desired(w, cluster, svc).UID
		}
		before := writes(w, clusterIDs[:2]...)
		h := hostile{w: w, id: c}

		good := `{"v":1,"phase":%q,"uid":%q,"observed_generation":%d,"desired_revision":%d,"reason":"Applied","message":%q,"last_transition_time":"2026-11-20T13:04:05.310Z"}`
		for _, forged := range []string{
			`{"v":1,"phase":`, `[]`, `null`, ``, `"ready"`, `{"v":2}`, "\x00\xff\xfe", strings.Repeat(`{"v":`, 10_000),
			fmt.Sprintf(good, "ready", uids[c], int64(1)<<62, int64(1)<<62, ""),
			fmt.Sprintf(good, "ready", uids[c], -5, -7, ""),
			fmt.Sprintf(good, "deleted", uids[c], 1, 1<<40, ""),
			fmt.Sprintf(good, "ready", uids["oscar-cluster-a"], 1, 1, ""),
			fmt.Sprintf(good, "omnipotent", uids[c], 1, 1, "\u202e\x1b[31m"),
			fmt.Sprintf(good, "failed", uids[c], 1, 1, strings.Repeat("x", 900<<10)),
		} {
			h.report("alpha2", forged)
			v, err := w.Client.Replicas(t.Context(), "alpha0", "")
			if err != nil || v.UID != fed.UID || v.Generation != 1 || len(v.Replicas) != 2 || v.Self.Status.Phase != "ready" {
				t.Fatalf("after %.100q: %+v %v", forged, v, err)
			}
			if _, err := w.Client.Federations(t.Context()); err != nil {
				t.Fatalf("after %.100q: %v", forged, err)
			}
		}
		// Orphans that are other clusters' replicas, and one that lives.
		h.write(record.ObservedClusterKey(c), fmt.Sprintf(`{"v":1,"recipient":"age1hostile","orphans":[
	{"service_name":"alpha1","uid":%q,"generation":9},{"service_name":"alpha0","uid":%q,"generation":9},{"service_name":"alpha2","uid":%q,"generation":9}]}`,
			uids["oscar-cluster-b"], uids["oscar-cluster-a"], uids[c]))
		if _, err := w.Client.Clusters(t.Context()); err != nil {
			t.Fatal(err)
		}

		// A creation over it, with forged votes: of a later revision, of another life.
		restoreRecipient(h, w)
		res := make(chan error, 1)
		go func() { res <- createIn(w, w.Client, "beta") }()
		w.Eventually("the creation waits for its vote", func() bool {
			v, err := w.Client.Replicas(t.Context(), "beta0", "")
			return err == nil && v.Phase == "preparing"
		})
		prepare, revision := desired(w, c, "beta2"), revisionOf(w, c, "beta2")
		vote := `{"v":1,"phase":"prepared","uid":%q,"observed_generation":0,"desired_revision":%d,"vote":{"answer":"yes","revision":%d,"delay_s":%d},"last_transition_time":"2026-11-20T13:04:05.310Z"}`
		for _, forged := range []string{
			fmt.Sprintf(vote, prepare.UID, revision+1000, revision+1000, 0),
			fmt.Sprintf(vote, prepare.UID, revision-1, revision-1, 0),
			fmt.Sprintf(vote, uids[c], revision, revision, 0),
			strings.Replace(fmt.Sprintf(vote, prepare.UID, revision, revision, 0), `"yes"`, `"certainly"`, 1),
		} {
			h.report("beta2", forged)
			if v, err := w.Client.Replicas(t.Context(), "beta0", ""); err == nil && v.Phase != "preparing" && v.Phase != "aborted" {
				t.Fatalf("a creation is %s after the vote %s", v.Phase, forged)
			}
		}
		clock.Advance(time.Hour)
		touch(w)
		if err := <-res; err == nil {
			t.Error("a creation was made by forged votes")
		}
		if now := writes(w, clusterIDs[:2]...); !maps.Equal(now, before) {
			t.Errorf("others were written to: %v after %v", now, before)
		}
		for cluster, svc := range replicasOf("alpha") {
			if d := desired(w, cluster, svc); d.UID != uids[cluster] || d.Tombstone() {
				t.Errorf("%s/%s is now %+v", cluster, svc, d)
			}
		}

		// The cluster has its own syncer again.
		if err := session.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		w.Cluster(c).Start()
		stands(w, "alpha", "256Mi")
		stands(w, "gamma", "256Mi")
		mustCreate(w, "beta")
	})
}

// A report that says little of many buckets would be many times longer in the record of the deleted replica, which then
// passes etcd's limit: the deletion was tried for ever, also after its cluster was gone, and no other cluster was let go.
func TestAHostileAcknowledgementHoldsUpNoDeletionForEver(t *testing.T) {
	for name, buckets := range map[string]string{
		"fates that say nothing": `"bucket_fates":[` + strings.Repeat("{},", 150_000) + `{}]`,
		"names that are no text": `"buckets_made":[` + strings.Repeat(`"`+strings.Repeat("\xff", 1000)+`",`, 500) + `""]`,
	} {
		t.Run(name, func(t *testing.T) {
			await.InVirtualTime(t, func(t *testing.T) {
				const a, b = "oscar-cluster-a", "oscar-cluster-b"
				w := newWorld(t, world.Options{})
				mustCreate(w, "alpha")
				w.Cluster(a).Stop()
				session, err := w.Store.OpenSession(t.Context(), store.SessionConfig{
					Key: record.SessionKey(a), Record: record.Session{V: record.Version, Instance: "hostile", StartedAt: record.At(time.Now())}, TTL: time.Minute,
				})
				if err != nil {
					t.Fatal(err)
				}
				mustDelete(w, "alpha")
				order := desired(w, a, "alpha0")
				hostile{w: w, id: a}.report("alpha0", fmt.Sprintf(
					`{"v":1,"phase":"deleted","uid":%q,"observed_generation":%d,"desired_revision":%d,"last_transition_time":"2026-11-20T13:04:05.310Z",%s}`,
					order.UID, order.Generation, revisionOf(w, a, "alpha0"), buckets))
				if err := session.Close(t.Context()); err != nil {
					t.Fatal(err)
				}
				w.Eventually("the other clusters are let go", func() bool {
					_, err := w.Store.Get(t.Context(), record.DesiredServiceKey(b, "alpha1"))
					return errors.Is(err, store.ErrNotFound)
				})
				// As a readmission does, after which its own syncer reports anew.
				if _, err := w.Store.Update(t.Context(), store.Update{Build: func(_ store.View, tx *store.Txn) error {
					tx.Delete(record.ObservedServiceKey(a, "alpha0"))
					return nil
				}}); err != nil {
					t.Fatal(err)
				}
				w.Cluster(a).Start()
				isGone(w, "alpha")
				mustCreate(w, "alpha")
			})
		})
	}
}

// restoreRecipient makes the cluster one that can be placed on, as the hostile one
// would to be asked for its vote.
func restoreRecipient(h hostile, w *world.World) {
	w.T.Helper()
	h.write(record.ObservedClusterKey(h.id), fmt.Sprintf(`{"v":1,"recipient":%q}`, w.Cluster(h.id).Recipient()))
	if err := w.CP.Clusters.Await(w.T.Context(), h.id); err != nil {
		w.T.Fatal(err)
	}
}

func desired(w *world.World, cluster, service string) *record.Desired {
	w.T.Helper()
	kv, err := w.Store.Get(w.T.Context(), record.DesiredServiceKey(cluster, service))
	if err != nil {
		w.T.Fatal(err)
	}
	d, err := store.Decode[record.Desired](kv)
	if err != nil {
		w.T.Fatal(err)
	}
	return d
}

func revisionOf(w *world.World, cluster, service string) int64 {
	w.T.Helper()
	kv, err := w.Store.Get(w.T.Context(), record.DesiredServiceKey(cluster, service))
	if err != nil {
		w.T.Fatal(err)
	}
	return kv.ModRevision
}
