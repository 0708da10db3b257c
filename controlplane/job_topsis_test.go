package controlplane_test

import (
	"strings"
	"testing"

	"github.com/oscarfed/oscarfed/controlplane/federations"
	"github.com/oscarfed/oscarfed/controlplane/jobs"
	"github.com/oscarfed/oscarfed/store/record"
	"github.com/oscarfed/oscarfed/test/await"
)

// TestTopsisWithAMemberAway: what it was given and had not claimed goes to the others, it gets
// nothing while it is away, and its share again when it is back.
func TestTopsisWithAMemberAway(t *testing.T) {
	await.InVirtualTime(t, func(t *testing.T) {
		w := newJobWorld(t)
		if _, err := w.create(func(r *federations.CreateRequest) {
			raw := strings.ReplaceAll(strings.ReplaceAll(body, "grayify", "topsis"), `"delegation":"random"`, `"delegation":"topsis"`)
			*r = send(t, raw)
		}); err != nil {
			t.Fatal(err)
		}
		submit := func() string {
			return w.submit(func(r *jobs.Request) { r.Service = "topsisr0" }).ID
		}
		c := w.clusters["c"]
		c.has(16000, 16000, 16000) // by far the best
		first := ""
		w.eventually(func() bool { // as soon as what it has is known
			first = submit()
			p, _ := w.at(first)
			return p == c
		})
		c.disconnect()
		moved := w.becomes(first, func(j *jobs.Job) bool { return j.State == record.JobAssigned && j.Attempt == 2 })
		if moved.Place.ClusterID == "c" || moved.Attempts[0].Reason != record.JobClusterLost {
			t.Errorf("%+v", moved)
		}
		for range 8 {
			if p, j := w.at(submit()); p == c {
				t.Errorf("it was given %+v while it is away", j)
			}
		}
		c.connect()
		c.has(16000, 16000, 16000)
		w.eventually(func() bool { p, _ := w.at(submit()); return p == c })
	})
}
