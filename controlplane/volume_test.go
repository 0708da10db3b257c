package controlplane_test

import (
	"strings"
	"testing"
	"time"

	"github.com/oscarfed/oscarfed/controlplane/fault"
	"github.com/oscarfed/oscarfed/controlplane/federations"
	"github.com/oscarfed/oscarfed/test/await"
)

// Every OSCAR would refuse a change of the volume, so it is refused before anything is
// written; and what GET shows is what was submitted, good to be sent back.
func TestAChangeOfTheVolumeIsRefused(t *testing.T) {
	await.InVirtualTime(t, func(t *testing.T) {
		w := newWorld(t)
		with := func(volume string) string {
			return strings.Replace(body, `"memory":`, `"volume":`+volume+`,"memory":`, 1)
		}
		submitted := `{"size":"1Gi","mount_path":"/data"}`
		if _, err := w.Federations.CreateService(t.Context(), admin, send(t, with(submitted))); err != nil {
			t.Fatal(err)
		}
		shown, _, err := w.Federations.Service(t.Context(), admin, "grayifyr0", "")
		if err != nil || shown.Volume == nil || shown.Volume.LifecyclePolicy != "" {
			t.Fatalf("%+v, %v", shown, err)
		}
		res, err := w.Federations.ChangeService(t.Context(), admin, federations.ChangeRequest{Service: shown, Wait: time.Minute})
		if err != nil || res.Replicas.Generation != 1 {
			t.Fatalf("what was read and sent back: %+v, %v", res, err)
		}
		for _, volume := range []string{`null`, `{"size":"2Gi","mount_path":"/data"}`, `{"size":"1Gi","mount_path":"/data","lifecycle_policy":"retain"}`} {
			_, err := w.Federations.ChangeService(t.Context(), admin, federations.ChangeRequest{Service: send(t, with(volume)).Service, Wait: time.Minute})
			if codeOf(t, err) != fault.CodeInvalid || !strings.Contains(err.Error(), "volume updates are not supported after service creation") {
				t.Errorf("%s: %v", volume, err)
			}
		}
		v, err := w.Federations.Replicas(t.Context(), admin, "grayifyr0", "")
		if err != nil || v.Generation != 1 {
			t.Errorf("%+v, %v", v, err)
		}
	})
}
