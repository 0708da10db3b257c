package clusters

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/oscarfed/oscarfed/controlplane/fault"
	"github.com/oscarfed/oscarfed/controlplane/gate"
	"github.com/oscarfed/oscarfed/controlplane/identity"
	"github.com/oscarfed/oscarfed/controlplane/view"
	"github.com/oscarfed/oscarfed/store"
	"github.com/oscarfed/oscarfed/store/record"
	"github.com/oscarfed/oscarfed/store/seal"
	"github.com/oscarfed/oscarfed/store/storetest"
	"github.com/oscarfed/oscarfed/store/storetest/virtual"
)

var admin = identity.Caller{Subject: identity.Admin, Administrator: true}

// newController makes a controller over a store with cluster a in a state. It sees nothing of
// what is written, since its mirror does not run.
func newController(t *testing.T, state record.ClusterState) (*Controller, *store.Store) {
	t.Helper()
	st, log := virtual.Open(t), storetest.Logger(t)
	id, err := seal.Generate()
	if err != nil {
		t.Fatal(err)
	}
	seen := view.NewState(st.NewMirror(store.MirrorConfig{Prefixes: []string{record.Root}}), time.Now)
	g, err := gate.New(gate.Config{Store: st, State: seen, Now: time.Now, Logger: log, Registry: prometheus.NewRegistry()})
	if err != nil {
		t.Fatal(err)
	}
	c, err := New(Config{Store: st, State: seen, Gate: g, Identity: id, Now: time.Now, Logger: log, Registry: prometheus.NewRegistry()})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := st.Update(t.Context(), store.Update{Build: func(_ store.View, tx *store.Txn) error {
		tx.Put(record.ClusterKey("a"), record.Cluster{V: record.Version, ClusterID: "a", UID: "uid of a", State: state})
		tx.Put(record.DesiredClusterKey("a"), record.DesiredCluster{V: record.Version, State: state})
		return nil
	}}); err != nil {
		t.Fatal(err)
	}
	return c, st
}

// TestAnInstanceThatLagsDoesNotSayThatNothingWasRemoved: it was committed, and the caller's
// time ended before this instance saw it.
func TestAnInstanceThatLagsDoesNotSayThatNothingWasRemoved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, st := newController(t, record.ClusterActive)
		err := fault.Crossing(storetest.CancelAfterCommit(t, st, func(ctx context.Context) error {
			_, err := c.orderRemoval(ctx, admin, "a", RemoveOptions{})
			return err
		}))
		if e, ok := errors.AsType[*fault.Error](err); !ok || e.Code != fault.CodeUnknownOutcome {
			t.Errorf("it is told as: %v", err)
		}
	})
}

// TestAClusterThatANewerVersionHasWrittenIsLeftAsItIs: this version does not know what it would
// write over.
func TestAClusterThatANewerVersionHasWrittenIsLeftAsItIs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, st := newController(t, "draining")
		before, err := st.Get(t.Context(), record.ClusterKey("a"))
		if err != nil {
			t.Fatal(err)
		}
		for name, change := range map[string]func() error{
			"removed":    func() error { _, err := c.orderRemoval(t.Context(), admin, "a", RemoveOptions{}); return err },
			"readmitted": func() error { _, err := c.Readmit(t.Context(), admin, "a"); return err },
			"paused":     func() error { _, err := c.SetState(t.Context(), admin, "a", "paused"); return err },
		} {
			if e, ok := errors.AsType[*fault.Error](change()); !ok || e.Code != fault.CodeUnavailable || !strings.Contains(e.Message, "newer version") {
				t.Errorf("%s: %v", name, e)
			}
		}
		if after, err := st.Get(t.Context(), record.ClusterKey("a")); err != nil || after.ModRevision != before.ModRevision {
			t.Errorf("it was written at revision %d (%v)", after.ModRevision, err)
		}
	})
}
