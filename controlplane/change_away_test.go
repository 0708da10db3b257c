package controlplane_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/oscarfed/oscarfed/controlplane/fault"
	"github.com/oscarfed/oscarfed/controlplane/federations"
	"github.com/oscarfed/oscarfed/store/record"
	"github.com/oscarfed/oscarfed/test/await"
)

func TestAChangeWhileAClusterIsAwayIsAppliedWhenItIsBack(t *testing.T) {
	await.InVirtualTime(t, func(t *testing.T) {
		w := newWorld(t)
		w.mustCreate()
		w.clusters["c"].does(silent)
		w.clusters["c"].disconnect()
		w.eventually(func() bool { c, err := w.Clusters.Get(t.Context(), admin, "c"); return err == nil && !c.Alive })
		s := send(t, strings.Replace(body, "0.5Gi", "1Gi", 1)).Service
		res, err := w.Federations.ChangeService(t.Context(), admin, federations.ChangeRequest{Service: s, Wait: 200 * time.Millisecond})
		if err != nil || len(res.Away) == 0 {
			t.Fatalf("%+v %v", res, err)
		}
		w.eventually(func() bool {
			v, err := w.Federations.Replicas(t.Context(), admin, "grayifyr0", "")
			return err == nil && v.Phase == record.PhaseDegraded
		})
		w.clusters["c"].connect()
		w.clusters["c"].does(yes)
		w.eventually(func() bool {
			v, err := w.Federations.Replicas(t.Context(), admin, "grayifyr0", "")
			return err == nil && v.Phase == record.PhaseReady
		})
	})
}

func TestCordonAndPause(t *testing.T) {
	await.InVirtualTime(t, func(t *testing.T) {
		w := newWorld(t)
		if _, err := w.Clusters.SetState(t.Context(), admin, "c", "cordoned"); err != nil {
			t.Fatal(err)
		}
		if _, err := w.create(); codeOf(t, err) != fault.CodeInvalid || !strings.Contains(fmt.Sprint(err.(*fault.Error).Violations), "cordoned") {
			t.Error("a cordoned cluster takes nothing new:", err)
		}
		if _, err := w.Clusters.SetState(t.Context(), admin, "c", "active"); err != nil {
			t.Fatal(err)
		}
		w.mustCreate()
		if _, err := w.Clusters.SetState(t.Context(), admin, "c", "cordoned"); err != nil {
			t.Fatal(err)
		}
		s := send(t, strings.Replace(body, "0.5Gi", "1Gi", 1)).Service
		if _, err := w.Federations.ChangeService(t.Context(), admin, federations.ChangeRequest{Service: s, Wait: time.Minute}); err != nil {
			t.Error("what is there goes on:", err)
		}
		before := w.revision()
		v, err := w.Federations.Pause(t.Context(), admin, "grayifyr0", "", "", true)
		if err != nil || !v.Paused || v.Generation != 2 {
			t.Errorf("%+v %v", v, err)
		}
		if w.revision() < before+1 {
			t.Error("nothing was written")
		}
		kv, err := w.store.Get(t.Context(), record.DesiredServiceKey("b", "grayifyr1"))
		if err != nil || !strings.Contains(string(kv.Value), `"paused":true`) {
			t.Errorf("%s %v", kv.Value, err)
		}
		if v, err = w.Federations.Pause(t.Context(), admin, "grayifyr0", "", "", false); err != nil || v.Paused {
			t.Errorf("%+v %v", v, err)
		}
	})
}
