package controlplane_test

import (
	"encoding/json"
	"testing"

	"github.com/oscarfed/oscarfed/api/oscar"
	"github.com/oscarfed/oscarfed/controlplane/federations"
	"github.com/oscarfed/oscarfed/test/await"
)

// TestStateThatAnOlderVersionStoredIsNotShown: a dashboard had sent it back, and takes it for how the service stands.
func TestStateThatAnOlderVersionStoredIsNotShown(t *testing.T) {
	await.InVirtualTime(t, func(t *testing.T) {
		w := newWorld(t)
		if _, err := w.create(func(r *federations.CreateRequest) {
			r.Service.Deployment, r.Service.BucketList = json.RawMessage(`{"state":"stopped"}`), []string{"grayifyr0-x"}
			r.Service.VolumeStatus = oscar.VolumeStatus{Enabled: true}
		}); err != nil {
			t.Fatal(err)
		}
		s, _, err := w.Federations.Service(t.Context(), admin, "grayifyr0", "")
		if err != nil {
			t.Fatal(err)
		}
		if s.Deployment != nil || len(s.BucketList) > 0 || s.VolumeStatus.Enabled {
			t.Errorf("it shows %s, %q, %+v", s.Deployment, s.BucketList, s.VolumeStatus)
		}
	})
}
