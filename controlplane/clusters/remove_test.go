package clusters

import (
	"context"
	"errors"
	"testing"
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
)

// TestAnInstanceThatLagsDoesNotSayThatNothingWasRemoved: it was committed, and the caller's
// time ended before this instance saw it.
func TestAnInstanceThatLagsDoesNotSayThatNothingWasRemoved(t *testing.T) {
	st, log := storetest.New(t), storetest.Logger(t)
	id, err := seal.Generate()
	if err != nil {
		t.Fatal(err)
	}
	state := view.NewState(st.NewMirror(store.MirrorConfig{Prefixes: []string{record.Root}}), time.Now) // which does not run
	g, err := gate.New(gate.Config{Store: st, State: state, Now: time.Now, Logger: log, Registry: prometheus.NewRegistry()})
	if err != nil {
		t.Fatal(err)
	}
	c, err := New(Config{Store: st, State: state, Gate: g, Identity: id, Now: time.Now, Logger: log, Registry: prometheus.NewRegistry()})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := st.Update(t.Context(), store.Update{Build: func(_ store.View, tx *store.Txn) error {
		tx.Put(record.ClusterKey("a"), record.Cluster{V: record.Version, ClusterID: "a", UID: "uid of a", State: record.ClusterActive})
		tx.Put(record.DesiredClusterKey("a"), record.DesiredCluster{V: record.Version, State: record.ClusterActive})
		return nil
	}}); err != nil {
		t.Fatal(err)
	}
	admin := identity.Caller{Subject: identity.Admin, Administrator: true}
	err = fault.Crossing(storetest.CancelAfterCommit(t, st, func(ctx context.Context) error {
		_, err := c.orderRemoval(ctx, admin, "a", RemoveOptions{})
		return err
	}))
	if e, ok := errors.AsType[*fault.Error](err); !ok || e.Code != fault.CodeUnknownOutcome {
		t.Errorf("it is told as: %v", err)
	}
}
