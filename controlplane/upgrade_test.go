package controlplane_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/oscarfed/oscarfed/controlplane"
	"github.com/oscarfed/oscarfed/controlplane/fault"
	"github.com/oscarfed/oscarfed/controlplane/federations"
	"github.com/oscarfed/oscarfed/controlplane/identity"
	"github.com/oscarfed/oscarfed/controlplane/request"
	"github.com/oscarfed/oscarfed/store/embedded"
	"github.com/oscarfed/oscarfed/store/record"
	"github.com/oscarfed/oscarfed/test/await"
)

// oldest makes an instance that reads and writes the first form alone, as the first version did.
func oldest(c *controlplane.Config) { c.Forms = record.Forms{Reads: 1, Writes: 1} }

// TestAnOlderVersionComesBackUntilTheUpgradeIsFinished: the version before neither reads parts nor ends batches,
// so that nothing of them is written while it may come back.
func TestAnOlderVersionComesBackUntilTheUpgradeIsFinished(t *testing.T) {
	await.InVirtualTime(t, func(t *testing.T) {
		w := emptyWorld(t, embedded.Config{})
		w.parts = true
		w.guard()
		w.start(oldest)
		var metrics *prometheus.Registry
		restart := func(mutate ...func(*controlplane.Config)) {
			t.Helper()
			w.stop()
			metrics = prometheus.NewRegistry()
			mutate = append(mutate, func(cfg *controlplane.Config) { cfg.Registry = metrics })
			w.ControlPlane, w.stop = startStoppable(t, w.store, w.identity, mutate...)
		}
		unfinished := func(want float64) {
			t.Helper()
			if told := w.Info(t.Context()).UpgradeUnfinished; told != (want > 0) {
				t.Errorf("the control plane tells of an unfinished upgrade: %t", told)
			}
			families, err := metrics.Gather()
			if err != nil {
				t.Fatal(err)
			}
			for _, f := range families {
				if f.GetName() == "oscarfed_upgrade_unfinished" {
					if got := f.GetMetric()[0].GetGauge().GetValue(); got != want {
						t.Errorf("%s is %v, want %v", f.GetName(), got, want)
					}
					return
				}
			}
			t.Error("no metric says whether the upgrade is finished")
		}
		create := func() {
			t.Helper()
			if _, err := w.Federations.CreateService(t.Context(), admin, send(t, starOf(3, 20<<10))); err != nil {
				t.Fatal(err)
			}
		}
		remove := func() {
			t.Helper()
			if _, err := w.Federations.DeleteService(t.Context(), admin, "svc0", federations.DeleteOptions{Wait: time.Minute}); err != nil {
				t.Fatal(err)
			}
		}
		finished := func() int {
			entries, _ := w.audited(request.AuditQuery{})
			return len(slices.DeleteFunc(entries, func(e string) bool { return !strings.Contains(e, string(record.ActionFinishUpgrade)) }))
		}

		// The new version, with syncers that read parts: it writes as the version before did.
		restart()
		unfinished(1)
		create()
		if parts := w.keys(record.PartsPrefix); len(parts) > 0 {
			t.Errorf("parts are written: %v", parts)
		}
		if _, err := w.Federations.CreateServices(t.Context(), admin, batch(t, "one", "two")); codeOf(t, err) != fault.CodeUnavailable {
			t.Errorf("a batch is answered with %v", err)
		}
		if _, err := w.Federations.CreateServices(t.Context(), admin, batch(t, "one")); err != nil {
			t.Error("a service alone is no batch:", err)
		}

		// The version before is back, and works with what the new one wrote.
		restart(oldest)
		remove()
		create()

		// The upgrade ends once, when nobody is older, and for an administrator.
		restart()
		w.put(record.InstanceKey("older"), record.Instance{V: record.Version, Forms: record.Forms{Reads: record.FormParts, Writes: record.FormParts}})
		if _, err := w.Forms.FinishUpgrade(t.Context(), admin); codeOf(t, err) != fault.CodeFailedPrecondition || !strings.Contains(err.Error(), "instance older of the control plane") {
			t.Errorf("beside an older instance it is answered with %v", err)
		}
		w.deleteKeys([]string{record.InstanceKey("older")})
		if _, err := w.Forms.FinishUpgrade(t.Context(), identity.Caller{Subject: "alice@example.org"}); codeOf(t, err) != fault.CodeForbidden {
			t.Errorf("a user is answered with %v", err)
		}
		if got := finished(); got > 0 {
			t.Errorf("%d times in the audit before it was", got)
		}
		for range 2 {
			if done, err := w.Forms.FinishUpgrade(t.Context(), admin); err != nil || done.Form != record.OwnForms().Writes {
				t.Fatalf("finished with %+v, %v", done, err)
			}
		}
		unfinished(0)
		if got := finished(); got != 1 {
			t.Errorf("%d times in the audit, want once", got)
		}
		remove()
		create()
		if len(w.keys(record.PartsPrefix)) == 0 {
			t.Error("no parts are written")
		}
		if _, err := w.Federations.CreateServices(t.Context(), admin, batch(t, "two", "three")); err != nil {
			t.Error(err)
		}

		// The version before does not start any more.
		w.stop()
		cfg := controlplane.Config{Store: w.store, Identity: w.identity, DefaultCluster: "a"}
		oldest(&cfg)
		cp, err := controlplane.New(cfg)
		if err != nil {
			t.Fatal(err)
		}
		if err := cp.Run(t.Context()); err == nil || !strings.Contains(err.Error(), "this control plane is too old") {
			t.Errorf("the version before ends with %v", err)
		}
	})
}
