package controlplane_test

import (
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/oscarfed/oscarfed/api/oscar"
	"github.com/oscarfed/oscarfed/controlplane"
	"github.com/oscarfed/oscarfed/controlplane/clusters"
	"github.com/oscarfed/oscarfed/controlplane/fault"
	"github.com/oscarfed/oscarfed/controlplane/federations"
	"github.com/oscarfed/oscarfed/store"
	"github.com/oscarfed/oscarfed/store/record"
	"github.com/oscarfed/oscarfed/test/await"
)

// onA is a service on a with a member on d.
const onA = `{"name":"latest0","image":"i","script":"s","federation":{"members":[{"type":"oscar","cluster_id":"d","service_name":"latest1"}]}}`

// keyless is a cluster whose syncer has connected and has not said its key yet.
func (w *world) keyless(id string) *fakeSyncer {
	w.t.Helper()
	p := &fakeSyncer{t: w.t, store: w.store, cluster: id, identity: newIdentity(w.t), answer: yes}
	if _, err := w.Clusters.Register(w.t.Context(), admin, clusters.Spec{ClusterID: id, Endpoint: "https://" + id + ".example.org"}); err != nil {
		w.t.Fatal(err)
	}
	p.connect()
	runUntilEnd(w.t, p.run)
	return p
}

// saysKey is the first report of a cluster.
func (p *fakeSyncer) saysKey() {
	p.t.Helper()
	_, err := p.store.Update(p.t.Context(), store.Update{Build: func(_ store.View, tx *store.Txn) error {
		tx.Put(record.ObservedClusterKey(p.cluster), record.ObservedCluster{V: record.Version, Recipient: p.identity.Recipient(), OscarVersion: "v4.1.2"})
		return nil
	}})
	if err != nil {
		p.t.Fatal(err)
	}
}

// TestACreateRightAfterAFirstConnectionIsNotRefused: that the key of a cluster is not
// known yet is waited for as its vote is.
func TestACreateRightAfterAFirstConnectionIsNotRefused(t *testing.T) {
	await.InVirtualTime(t, func(t *testing.T) {
		var looks atomic.Int64
		w := newWorld(t, func(c *controlplane.Config) {
			c.PrepareDeadline = time.Hour
			c.Now = func() time.Time { looks.Add(1); return time.Now() }
		})
		d := w.keyless("d")
		tries := map[string]func() error{
			"a creation": func() error {
				_, err := w.Federations.CreateService(t.Context(), admin, send(t, onA))
				return err
			},
			"a change that adds it": func() error {
				_, err := w.Federations.ChangeReplicas(t.Context(), admin, "grayifyr0", federations.ReplicasRequest{
					Add: []oscar.Member{{Type: "oscar", ClusterID: "d", ServiceName: "grayifyr3"}}, Wait: time.Minute})
				return err
			},
		}
		if _, err := w.create(); err != nil {
			t.Fatal(err)
		}
		ended := map[string]chan error{}
		for name, try := range tries {
			before := looks.Load()
			end := make(chan error, 1)
			ended[name] = end
			go func() { end <- try() }()
			for looks.Load() == before && len(end) == 0 {
				<-time.After(time.Millisecond)
			}
		}
		d.saysKey()
		for name, end := range ended {
			if err := <-end; err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
	})
}

// TestAClusterThatNeverConnectsIsWaitedForNoLongerThanAVote: the answer tells which
// of two cases it is.
func TestAClusterThatNeverConnectsIsWaitedForNoLongerThanAVote(t *testing.T) {
	await.InVirtualTime(t, func(t *testing.T) {
		w := newWorld(t)
		d := w.keyless("d")
		refused := func(want string) {
			t.Helper()
			_, err := w.Federations.CreateService(t.Context(), admin, send(t, onA))
			e, ok := errors.AsType[*fault.Error](err)
			if !ok || e.Code != fault.CodeUnavailable || e.Message != "d/latest1: "+want {
				t.Errorf("refused with %v", err)
			}
		}
		refused("its syncer has connected and has not said its key yet; try again, or leave the cluster out")
		d.disconnect()
		refused("no syncer of this cluster has ever connected; start it, or leave the cluster out")
	})
}
