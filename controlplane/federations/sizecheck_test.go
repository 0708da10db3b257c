package federations

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/oscarfed/oscarfed/api/oscar"
	"github.com/oscarfed/oscarfed/controlplane/gate"
	"github.com/oscarfed/oscarfed/controlplane/view"
	"github.com/oscarfed/oscarfed/store"
	"github.com/oscarfed/oscarfed/store/record"
)

// drawnCreation is a federation that is about to be created: with short and long names, members that it lists or not, and
// users whose names take more bytes in a record.
func drawnCreation(t *rapid.T) sizeCheck {
	text := func(what string, longest int) string {
		one := rapid.SampledFrom([]string{"a", "<", "é", "\x01"}).Draw(t, "character of "+what)
		return strings.Repeat(one, rapid.SampledFrom([]int{1, 10, longest}).Draw(t, what)/len(one)+1)
	}
	name := strings.Repeat("n", rapid.SampledFrom([]int{1, 20, 55}).Draw(t, "name"))
	now := record.At(time.Now())
	fed := record.Federation{
		V: record.Version, UID: record.NewUID(), Owner: text("owner", 500), GroupID: name, Generation: 1, Phase: record.PhasePreparing,
		RequestID: record.NewUID(), By: text("by", 500), Topology: rapid.SampledFrom([]string{"star", "mesh"}).Draw(t, "topology"), Delegation: "load-based", Drift: "enforce", Deployment: "transactional",
		Visibility: "restricted", Request: strings.Repeat("0", 64), Epoch: record.NewUID(), CreatedAt: now, ChangedAt: now, Deadline: &now,
	}
	for range rapid.SampledFrom([]int{0, 1, 100}).Draw(t, "users") {
		fed.AllowedUsers = append(fed.AllowedUsers, text("user", 200))
	}
	replicas := rapid.SampledFrom([]int{1, 2, 3, 10, 15, 16, 17, 50, oscar.MaxReplicas}).Draw(t, "replicas")
	if rapid.Bool().Draw(t, "endpoint") {
		fed.Members = append(fed.Members, record.Member{Type: "endpoint", URL: "https://" + text("url", 1000), Priority: 1})
	}
	for i := range replicas {
		m := record.Member{Type: "oscar", ClusterID: fmt.Sprintf("c%d-%s", i, name), ServiceName: fmt.Sprintf("s%d-%s", i, name), UID: record.NewUID(), Coordinator: i == 0, Weight: new(i)}
		fed.Members = append(fed.Members, m)
	}
	var desired []gate.Placed
	graph := view.GraphOf(&fed)
	for i, m := range fed.Members {
		if !m.Replica() {
			continue
		}
		d := &record.Desired{
			V: record.Version, Intent: record.IntentPrepare, Federation: fed.UID, GroupID: fed.GroupID, UID: m.UID, Generation: 1,
			RequestID: fed.RequestID, Owner: fed.Owner, Drift: fed.Drift, Spec: m.ServiceName + "/" + m.UID + ".1",
			Mark: "sha256:" + strings.Repeat("0", 64), Deadline: &now, Epoch: fed.Epoch, Sees: view.Sees(graph, i),
		}
		desired = append(desired, gate.Placed{Cluster: m.ClusterID, Service: m.ServiceName, Rec: d})
	}
	definition := []gate.Staged{{Key: record.HistoryKey(fed.UID, 1), Rec: &record.Spec{V: record.Version, Sealed: text("definition", 100_000)}}}
	c := &Controller{}
	c.cfg.Now = time.Now
	return c.sizeCheckOf(fed, desired, definition)
}

// A creation whose bound is small enough is not tried: so no step of it may be larger than its bound.
func TestNoStepIsLargerThanTheBoundOfItsCreation(t *testing.T) {
	tried := 0
	rapid.Check(t, func(t *rapid.T) {
		l := drawnCreation(t)
		bound, err := l.bound()
		if err != nil {
			t.Fatal(err)
		}
		if bound > store.MaxBytes {
			return
		}
		tried++
		for _, step := range append(l.courses(), l.changes()...) {
			err := store.Check(func(tx *store.Txn) (int, error) {
				space, err := step.put(tx)
				return space + store.MaxBytes - bound, err
			})
			if err != nil {
				t.Errorf("%d replicas: the %s is larger than %d bytes: %v", len(l.Replicas), step.name, bound, err)
			}
		}
	})
	if tried == 0 {
		t.Error("no creation has a bound that is small enough")
	}
}
