package syncer_test

import (
	"context"
	"log/slog"
	"strings"
	"testing"

	"github.com/oscarfed/oscarfed/internal/oscarsim"
	"github.com/oscarfed/oscarfed/store"
	"github.com/oscarfed/oscarfed/store/record"
	"github.com/oscarfed/oscarfed/syncer"
	"github.com/oscarfed/oscarfed/syncer/manager"
	"github.com/oscarfed/oscarfed/test/await"
)

// cluster is the present report about the cluster, or nil.
func (r *rig) cluster() *record.ObservedCluster {
	r.t.Helper()
	kv, ok := r.mirror.Snapshot().KV(record.ObservedClusterKey(clusterID))
	if !ok {
		return nil
	}
	c, err := store.Decode[record.ObservedCluster](kv)
	if err != nil {
		r.t.Fatal(err)
	}
	return c
}

// TestAnOscarThatListsAndDoesNotSayWhoItIs: the report of the cluster keeps what was
// known, and the syncer goes on.
func TestAnOscarThatListsAndDoesNotSayWhoItIs(t *testing.T) {
	for _, op := range []oscarsim.Op{oscarsim.OpInfo, oscarsim.OpConfig} {
		t.Run(op, func(t *testing.T) {
			await.InVirtualTime(t, func(t *testing.T) {
				r := newRig(t, oscarsim.Config{})
				r.start()
				r.eventually("the version is known", func() bool { c := r.cluster(); return c != nil && c.OscarVersion != "" })
				known := r.cluster()
				r.fault(op, oscarsim.Fault500, 0)
				r.eventually("OSCAR was asked in vain", func() bool {
					c := r.cluster()
					return c.Reason == record.ReasonOscarUnreachable
				})
				p := newReplica("grayify")
				r.want(p, record.IntentPrepare)
				r.eventually("full compares were tried", func() bool { return r.sim.Calls()[op] >= 5 })
				if c := r.cluster(); c.OscarVersion != known.OscarVersion || c.MinioEndpoint != known.MinioEndpoint {
					t.Errorf("the report was %+v and is %+v", known, c)
				}
				r.sim.ClearFaults()
				r.await(p, record.PhasePrepared)
			})
		})
	}
}

// TestClusterReportWithoutASession: a syncer that has lost its session does not
// name its own recipient in place of its successor's.
func TestClusterReportWithoutASession(t *testing.T) {
	await.InVirtualTime(t, func(t *testing.T) {
		r := newRig(t, oscarsim.Config{})
		gate, inner, log := newGate(), r.oscar("syncer"), &await.Output{}
		gate.arm()
		r.start(func(c *syncer.Config) {
			c.Logger, c.Identity = slog.New(slog.NewTextHandler(log, nil)), newIdentity(t)
			c.OSCAR = &proxy{OSCAR: inner, storage: func(ctx context.Context) (manager.Storage, error) {
				gate.pass()
				return inner.Storage(ctx)
			}}
		})
		<-gate.reached
		r.revokeSession()
		r.start(func(c *syncer.Config) { c.Instance = "successor" })
		r.eventually("the successor reports", func() bool { c := r.cluster(); return c != nil && c.Recipient == r.identity.Recipient() })
		close(gate.opened)
		r.eventually("it has noticed", func() bool { return strings.Contains(log.String(), "session ended") })
		if c := r.cluster(); c.Recipient != r.identity.Recipient() {
			t.Error("the recipient is that of a syncer without a session")
		}
	})
}

func TestClusterReport(t *testing.T) {
	await.InVirtualTime(t, func(t *testing.T) {
		r := newRig(t, oscarsim.Config{})
		r.fault(oscarsim.OpAny, oscarsim.FaultRefuse, 0)
		r.start()
		r.eventually("the recipient is reported while OSCAR is away", func() bool {
			c := r.cluster()
			return c != nil && c.Recipient == r.identity.Recipient() && c.Reason == record.ReasonOscarUnreachable
		})
		r.sim.ClearFaults()
		r.eventually("OSCAR is reported", func() bool {
			c := r.cluster()
			return c.OscarVersion == "v4.1.2" && c.MinioEndpoint != "" && c.MinioRegion != "" && c.Reason == ""
		})
		kv, _ := r.mirror.Snapshot().KV(record.ObservedClusterKey(clusterID))
		if strings.Contains(string(kv.Value), "root-key") {
			t.Errorf("the keys of MinIO are reported: %s", kv.Value)
		}
	})
}
