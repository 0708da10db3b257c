package e2e_test

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/oscarfed/oscarfed/api/oscar"
	"github.com/oscarfed/oscarfed/controlplane"
	"github.com/oscarfed/oscarfed/controlplane/federations"
	"github.com/oscarfed/oscarfed/store"
	"github.com/oscarfed/oscarfed/store/access"
	"github.com/oscarfed/oscarfed/store/record"
	"github.com/oscarfed/oscarfed/store/storetest"
	"github.com/oscarfed/oscarfed/syncer"
	"github.com/oscarfed/oscarfed/test/await"
	"github.com/oscarfed/oscarfed/test/world"
)

// next are the forms of the version after this one.
var next = record.Forms{Reads: record.OwnForms().Reads + 1, Writes: record.OwnForms().Writes + 1}

// endsWith runs something that is to end by itself, and answers its error.
func endsWith(t *testing.T, run func(context.Context) error) string {
	t.Helper()
	ended := make(chan error, 1)
	go func() { ended <- run(t.Context()) }()
	select {
	case err := <-ended:
		if err == nil {
			t.Fatal("it has ended without an error")
		}
		return err.Error()
	case <-time.After(limit):
		t.Fatal("it goes on")
	}
	return ""
}

// TestAnOldVersionWritesIntoAStoreOfTheNext: a rolling upgrade, a step back before a new
// form is written, and none afterwards.
func TestAnOldVersionWritesIntoAStoreOfTheNext(t *testing.T) {
	await.InVirtualTime(t, func(t *testing.T) {
		forms := record.OwnForms()
		w := newWorld(t, func(o *world.Options) {
			o.ControlPlane = func(cfg *controlplane.Config) { cfg.Forms = forms }
		})
		if _, err := create(w, body); err != nil {
			t.Fatal(err)
		}
		old := w.CP
		changes := func(cp *controlplane.ControlPlane, memory string) {
			t.Helper()
			s := world.Service(t, strings.Replace(body, "0.5Gi", memory, 1))
			if _, err := cp.Federations.ChangeService(t.Context(), admin, federations.ChangeRequest{Service: s, Wait: limit}); err != nil {
				t.Error(err)
			}
		}

		// The next version beside this one.
		forms = next
		newer := w.StartControlPlane("control-plane-1")
		if _, err := newer.Forms.FinishUpgrade(t.Context(), admin); err == nil || !strings.Contains(err.Error(), "of the control plane") {
			t.Errorf("the upgrade is finished beside this version: %v", err)
		}
		changes(newer, "1Gi")
		changes(old, "2Gi")

		// A step back: the next version goes, and what it wrote is worked with.
		w.StopControlPlane(newer)
		changes(old, "3Gi")

		// The upgrade is done: the instances first, then the syncers.
		newer = w.StartControlPlane("control-plane-1")
		w.StopControlPlane(old)
		for _, id := range []string{a, b, c} {
			w.Cluster(id).Stop()
			w.Cluster(id).Start(func(cfg *syncer.Config) { cfg.Forms = next })
		}

		// An instance of this version whose announcement was lost runs on.
		forms = record.OwnForms()
		straggler := straggle(t, w)
		if _, err := newer.Forms.FinishUpgrade(t.Context(), admin); err != nil {
			t.Fatal(err)
		}
		straggler(t)
		changes(newer, "4Gi")

		// A later version may ask syncers, too.
		w.Cluster(c).Stop()
		key := record.DesiredClusterKey(c)
		if _, err := w.Store.Update(t.Context(), store.Update{Keys: []string{key}, Build: func(v store.View, tx *store.Txn) error {
			kv, _ := v.KV(key)
			d, err := store.Decode[record.DesiredCluster](kv)
			if err != nil {
				return err
			}
			d.Minimum = next.Minimum()
			tx.Expect(key)
			tx.Put(key, d)
			return nil
		}}); err != nil {
			t.Fatal(err)
		}
		late := w.Cluster(c).NewSyncer()
		if got := endsWith(t, late.Run); !strings.Contains(got, fmt.Sprintf("this syncer is too old: the store is written in form %d", next.Reads)) {
			t.Errorf("an older syncer ends with %q", got)
		}
		w.Cluster(c).Start(func(cfg *syncer.Config) { cfg.Forms = next })
		if _, err := newer.Federations.ChangeReplicas(t.Context(), admin, names[0], federations.ReplicasRequest{
			Remove: []oscar.Member{{Type: "oscar", ClusterID: c, ServiceName: names[2]}}, Wait: limit,
		}); err != nil {
			t.Error(err)
		}
	})
}

// straggle starts an instance of this version and takes its announcement away. What it
// returns waits for its end, and sees that it writes nothing any more.
func straggle(t *testing.T, w *world.World) func(t *testing.T) {
	t.Helper()
	st := storetest.Open(t, w.As(access.ControlPlane))
	cp, err := controlplane.New(controlplane.Config{Store: st, Identity: w.Identity(), Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	before := w.Keys(record.InstancesPrefix)
	ended := make(chan error, 1)
	go func() { ended <- cp.Run(t.Context()) }()
	select {
	case <-cp.Ready():
	case err := <-ended:
		t.Fatal(err)
	}
	for _, key := range w.Keys(record.InstancesPrefix) {
		if len(before) == 1 && key != before[0] {
			if _, err := w.Store.Update(t.Context(), store.Update{Build: func(_ store.View, tx *store.Txn) error { tx.Delete(key); return nil }}); err != nil {
				t.Fatal(err)
			}
		}
	}
	return func(t *testing.T) {
		t.Helper()
		if got := endsWith(t, func(context.Context) error { return <-ended }); !strings.Contains(got, fmt.Sprintf("this control plane is too old: the store is written in form %d", record.OwnForms().Reads+1)) {
			t.Errorf("it ends with %q", got)
		}
		_, err := st.Update(t.Context(), store.Update{Build: func(_ store.View, tx *store.Txn) error {
			tx.Put(record.OwnerKey("late"), record.Owner{V: record.Version})
			return nil
		}})
		if err == nil || !strings.Contains(err.Error(), fmt.Sprintf("form %d", record.OwnForms().Writes)) {
			t.Errorf("its writes are answered with %v", err)
		}
	}
}
