package federations

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/oscarfed/oscarfed/controlplane/fault"
	"github.com/oscarfed/oscarfed/controlplane/gate"
	"github.com/oscarfed/oscarfed/controlplane/request"
	"github.com/oscarfed/oscarfed/controlplane/view"
	"github.com/oscarfed/oscarfed/store"
	"github.com/oscarfed/oscarfed/store/record"
	"github.com/oscarfed/oscarfed/store/seal"
	"github.com/oscarfed/oscarfed/store/storetest"
	"github.com/oscarfed/oscarfed/store/storetest/virtual"
)

// TestARefusalThatAnotherInstanceHasPassedByIsUnknown: the next change removed the refusal from
// the federation before this instance saw it. With a key the refusal is kept.
func TestARefusalThatAnotherInstanceHasPassedByIsUnknown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st, log := virtual.Open(t), storetest.Logger(t)
		id, err := seal.Generate()
		if err != nil {
			t.Fatal(err)
		}
		now := record.Federation{V: record.Version, UID: "f", GroupID: "g", Phase: record.PhaseReady, Generation: 1, RequestID: "next"}
		then := now
		then.Refused = &record.Refused{RequestID: "mine", Code: string(fault.CodeFailedPrecondition), Detail: "it does not fit"}
		q := request.Claim{Hash: "h", BodyHash: "b", RequestID: "mine"}
		if _, err := st.Update(t.Context(), store.Update{Build: func(_ store.View, tx *store.Txn) error {
			tx.Put(record.FederationKey("f"), now)
			tx.Put(record.RequestKey("h"), record.Request{
				V: record.Version, BodyHash: "b", UID: "f", RequestID: "mine", CreatedAt: record.At(time.Now()), Keyed: true,
				Answer: &record.Answer{Phase: record.PhaseReady, Federation: &then},
			})
			return nil
		}}); err != nil {
			t.Fatal(err)
		}
		mirror := st.NewMirror(store.MirrorConfig{Prefixes: []string{record.Root}})
		ctx, end := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() { defer close(ended); _ = mirror.Run(ctx) }()
		defer func() { end(); <-ended }()
		<-mirror.Synced()
		state := view.NewState(mirror, time.Now)
		state.Refresh()
		g, err := gate.New(gate.Config{Store: st, State: state, Now: time.Now, Logger: log, Registry: prometheus.NewRegistry()})
		if err != nil {
			t.Fatal(err)
		}
		requests := request.New(request.Config{Store: st, State: state, Gate: g, Counters: request.NewCounters(time.Now, 0, nil), Now: time.Now, Logger: log})
		c := New(Config{Store: st, State: state, Gate: g, Requests: requests, Identity: id, Now: time.Now, Logger: log})
		at := view.MemberRef{UID: "f", Rec: &now}
		err = c.verdict(t.Context(), attempt{MemberRef: at, generation: 2, votes: true}, q)
		if e, ok := errors.AsType[*fault.Error](err); !ok || e.Code != fault.CodeFailedPrecondition || e.Message != "it does not fit" {
			t.Errorf("with a key: %v", err)
		}
		err = c.verdict(t.Context(), attempt{MemberRef: at, generation: 2, votes: true}, request.Claim{RequestID: "mine"})
		if e, ok := errors.AsType[*fault.Error](err); !ok || e.Code != fault.CodeUnknownOutcome {
			t.Errorf("without one: %v", err)
		}
	})
}
