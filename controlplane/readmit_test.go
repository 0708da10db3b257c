package controlplane_test

import (
	"testing"

	"github.com/oscarfed/oscarfed/controlplane"
	"github.com/oscarfed/oscarfed/store"
	"github.com/oscarfed/oscarfed/store/record"
	"github.com/oscarfed/oscarfed/store/storetest"
	"github.com/oscarfed/oscarfed/test/await"
)

// heldAt is a world, whose cluster c is ordered to revoke a refresh token, with what its syncer says when that is
// done, and what the order has kept of it.
func heldAt(t *testing.T) (w *world, c *fakeSyncer, says func(), kept func() bool) {
	t.Helper()
	w = newJobWorld(t)
	c = w.clusters["c"]
	uid := w.onlyFederation().UID
	w.put(record.HoldKey("c", uid), record.Hold{V: 1, Order: record.HoldRevoke, Serial: 7, Owner: admin.Subject})
	says = func() {
		c.write(record.HoldingKey("c", uid), record.Holding{V: 1, State: record.HoldWaiting, Serial: 7, Revoked: true})
	}
	kept = func() bool {
		kv, err := w.store.Get(t.Context(), record.HoldKey("c", uid))
		if err != nil {
			t.Fatal(err)
		}
		h, err := store.Decode[record.Hold](kv)
		if err != nil {
			t.Fatal(err)
		}
		return h.Revoked
	}
	return w, c, says, kept
}

// readmittedAt has an instance readmit a cluster, also at a second try.
func (w *world) readmittedAt(cp *controlplane.ControlPlane, p *fakeSyncer) {
	w.t.Helper()
	w.eventually(func() bool {
		_, err := cp.Clusters.Readmit(w.t.Context(), admin, p.cluster)
		return err == nil
	})
	if keys := w.keys(record.ObservedPrefix(p.cluster)); len(keys) > 0 {
		w.t.Fatalf("it is readmitted, and has %v", keys)
	}
}

// TestAnInstanceThatLagsReadmitsAClusterByAllThatItHasReported: it has not heard of the reports, nor of the revocation.
func TestAnInstanceThatLagsReadmitsAClusterByAllThatItHasReported(t *testing.T) {
	await.InVirtualTime(t, func(t *testing.T) {
		w, c, says, kept := heldAt(t)
		st, hold := w.lateWatch()
		late := startControlPlane(t, st, w.identity)
		hold()
		says()
		c.disconnect()
		w.revoked(c)
		w.readmittedAt(late, c)
		if !kept() {
			t.Error("that the token is revoked is told nowhere any more")
		}
	})
}

// TestAJobThatWasSubmittedIsNotForgottenByAnInstanceThatLags as it readmits the cluster: the job may run there.
func TestAJobThatWasSubmittedIsNotForgottenByAnInstanceThatLags(t *testing.T) {
	await.InVirtualTime(t, func(t *testing.T) {
		w := newJobWorld(t)
		st, hold := w.lateWatch()
		late := startControlPlane(t, st, w.identity)
		j := w.submit()
		p, _ := w.at(j.ID)
		w.eventually(func() bool { // the instance that is to lag has heard of the assignment
			now, err := late.Jobs.Get(t.Context(), admin, j.ID)
			return err == nil && now.State == record.JobAssigned
		})
		w.stop()
		hold()
		for _, state := range whole()[:3] {
			p.says(j.ID, 1, state)
		}
		p.disconnect()
		w.revoked(p)
		w.readmittedAt(late, p)
		if a := p.standing(); len(a) != 1 || !a[0].Posted {
			t.Errorf("its syncer is to take up %+v, and may start it once more", a)
		}
	})
}

// TestWhatIsReportedAsAClusterIsReadmittedIsKept: another instance has readmitted it, and revoked it again after the
// report.
func TestWhatIsReportedAsAClusterIsReadmittedIsKept(t *testing.T) {
	await.InVirtualTime(t, func(t *testing.T) {
		w, c, says, kept := heldAt(t)
		faults := new(storetest.Faults)
		slow := startControlPlane(t, w.net.Open(t, "slow", store.Config{DialOptions: faults.DialOptions()}), w.identity)
		c.disconnect()
		w.revoked(c)
		faults.BeforeWrite(says)
		w.readmittedAt(slow, c)
		if !kept() {
			t.Error("that the token is revoked is told nowhere any more")
		}
	})
}
