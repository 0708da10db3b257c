package controlplane_test

import (
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/oscarfed/oscarfed/controlplane/fault"
	"github.com/oscarfed/oscarfed/store"
	"github.com/oscarfed/oscarfed/store/record"
	"github.com/oscarfed/oscarfed/test/await"
)

func (w *world) reportOrphans(cluster string, orphans ...record.Orphan) {
	w.t.Helper()
	w.reportOrphansAt(cluster, 0, orphans...)
}

// reportOrphansAt reports orphans that were listed after a revision.
func (w *world) reportOrphansAt(cluster string, at int64, orphans ...record.Orphan) {
	w.t.Helper()
	_, err := w.store.Update(w.t.Context(), store.Update{Build: func(_ store.View, tx *store.Txn) error {
		tx.Put(record.ObservedClusterKey(cluster), record.ObservedCluster{
			V: record.Version, Recipient: w.clusters[cluster].identity.Recipient(), Orphans: orphans, OrphansAt: at,
		})
		return nil
	}})
	if err != nil {
		w.t.Fatal(err)
	}
}

func TestALateCreateGetsItsTombstoneAgain(t *testing.T) {
	await.InVirtualTime(t, func(t *testing.T) {
		w := newWorld(t)
		w.clusters["c"].does(failing)
		if _, err := w.create(); codeOf(t, err) != fault.CodeReplicaFailed {
			t.Fatal(err)
		}
		view, err := w.Federations.Replicas(t.Context(), admin, "grayifyr0", "")
		if err != nil {
			t.Fatal(err)
		}
		uid := view.Members[2].UID
		answered := make(chan *record.Desired, 1)
		w.clusters["c"].does(func(s string, d *record.Desired) *record.Observed {
			if d.Tombstone() && s == "grayifyr2" {
				w.reportOrphans("c")
				select {
				case answered <- d:
				default:
				}
			}
			return yes(s, d)
		})
		w.reportOrphans("c", record.Orphan{ServiceName: "grayifyr2", UID: uid, Generation: 1})
		select {
		case d := <-answered:
			if d.UID != uid || d.Generation != 1 || d.Cause != record.CauseRollback || d.Mark == "" {
				t.Errorf("%+v", d)
			}
		case <-time.After(time.Minute):
			t.Fatal("the late create was never ordered away")
		}
		w.eventually(func() bool { return len(w.keys(record.DesiredServicesPrefix("c"))) == 0 })
		w.clusters["c"].does(yes)
		if _, err := w.create(); err != nil {
			t.Error("the name is free again:", err)
		}
	})
}

// A report of orphans stands until its cluster lists them anew: it orders a late create away once.
func TestAReportOfOrphansOrdersEachAwayOnce(t *testing.T) {
	await.InVirtualTime(t, func(t *testing.T) {
		w := newWorld(t)
		w.clusters["c"].does(failing)
		if _, err := w.create(); codeOf(t, err) != fault.CodeReplicaFailed {
			t.Fatal(err)
		}
		view, err := w.Federations.Replicas(t.Context(), admin, "grayifyr0", "")
		if err != nil {
			t.Fatal(err)
		}
		tombstones := map[string]bool{}
		var mu sync.Mutex
		w.clusters["c"].does(func(s string, d *record.Desired) *record.Observed {
			mu.Lock()
			defer mu.Unlock()
			if d.Tombstone() && s == "grayifyr2" {
				tombstones[d.RequestID] = true
			}
			return yes(s, d)
		})
		for seen := 1; seen <= 2; seen++ {
			now, err := w.store.Read(t.Context(), record.MetaKey)
			if err != nil {
				t.Fatal(err)
			}
			w.reportOrphansAt("c", now.Revision, record.Orphan{ServiceName: "grayifyr2", UID: view.Members[2].UID, Generation: 1})
			<-time.After(time.Minute)
			mu.Lock()
			if len(tombstones) != seen {
				t.Errorf("after %d reports there were %d tombstones", seen, len(tombstones))
			}
			mu.Unlock()
		}
	})
}

func TestAnUnknownOrphanIsLeftAlone(t *testing.T) {
	await.InVirtualTime(t, func(t *testing.T) {
		w := newWorld(t)
		w.clusters["c"].does(func(s string, d *record.Desired) *record.Observed {
			if s == "someones" {
				t.Errorf("absence became an order: %+v", d)
			}
			return yes(s, d)
		})
		w.reportOrphans("c", record.Orphan{ServiceName: "someones", UID: "0199c3a2-5f11-7000-8000-00000000ffff", Generation: 1})
		w.eventually(func() bool {
			c, err := w.Clusters.Get(t.Context(), admin, "c")
			return err == nil && len(c.Orphans) == 1
		})
		if _, err := w.create(); err != nil {
			t.Fatal(err)
		}
		list := func() string {
			d, err := w.Recovery.Differences(t.Context(), admin)
			if err != nil || len(d.Differences) != 1 {
				t.Fatalf("%+v, %v", d, err)
			}
			return d.Differences[0].Message
		}
		if before := list(); strings.Contains(before, "half-created") {
			t.Errorf("it says %q", before)
		}
		// What is not known of it is told with it.
		_, err := w.store.Update(t.Context(), store.Update{Keys: []string{record.ObservedClusterKey("c")}, Build: func(v store.View, tx *store.Txn) error {
			kv, _ := v.KV(record.ObservedClusterKey("c"))
			c, err := store.Decode[record.ObservedCluster](kv)
			if err != nil {
				return err
			}
			c.Unlisted = []record.Unlisted{{ServiceName: "other", Message: "another one"}, {ServiceName: "someones", Message: "it is half-created"}}
			tx.Put(kv.Key, c)
			return nil
		}})
		if err != nil {
			t.Fatal(err)
		}
		if after := list(); !strings.HasSuffix(after, "; it is half-created") {
			t.Errorf("it says %q", after)
		}
	})
}
