package e2e_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/oscarfed/oscarfed/api/client"
	v1 "github.com/oscarfed/oscarfed/api/v1"
	"github.com/oscarfed/oscarfed/test/await"
)

// fates is what is told of deleted replicas, in a line for each.
func fates(list []v1.DeletedReplica) string {
	var out []string
	for _, d := range list {
		line := fmt.Sprintf("%s pending=%t", d.ClusterID, d.Pending)
		for _, b := range d.Buckets {
			line += " " + b.Bucket + " " + b.Fate
			if b.Objects != nil {
				line += fmt.Sprintf(" %d", *b.Objects)
			}
		}
		out = append(out, line)
	}
	slices.Sort(out)
	return strings.Join(out, "; ")
}

// TestADeletionTellsWhatStays: how much is in which bucket, now or when a cluster
// that was away has come back.
func TestADeletionTellsWhatStays(t *testing.T) {
	await.InVirtualTime(t, func(t *testing.T) {
		w := newWorld(t)
		if _, err := create(w, body); err != nil {
			t.Fatal(err)
		}
		if err := w.Cluster(a).Sim.Upload(names[0], "out/one"); err != nil {
			t.Fatal(err)
		}
		w.Cluster(c).Stop()
		res, err := w.Client.DeleteService(t.Context(), names[0], client.DeleteOptions{Wait: limit})
		if err != nil {
			t.Fatal(err)
		}
		if got := fates(res.Replicas); got != a+" pending=false grayifyr0 kept 1; "+b+" pending=false grayifyr0 kept 0; "+c+" pending=true" {
			t.Errorf("the deletion told: %s", got)
		}
		w.Cluster(c).Start()
		w.Eventually("everything is told", func() bool {
			list, err := w.Client.Deleted(t.Context(), "grayifyr0")
			return err == nil && fates(list) == a+" pending=false grayifyr0 kept 1; "+b+" pending=false grayifyr0 kept 0; "+c+" pending=false grayifyr0 kept 0"
		})
	})
}
