package recovery

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"

	v1 "github.com/oscarfed/oscarfed/api/v1"
	"github.com/oscarfed/oscarfed/controlplane/fault"
	"github.com/oscarfed/oscarfed/controlplane/federations"
	"github.com/oscarfed/oscarfed/controlplane/gate"
	"github.com/oscarfed/oscarfed/controlplane/hint"
	"github.com/oscarfed/oscarfed/controlplane/tokens"
	"github.com/oscarfed/oscarfed/controlplane/view"
	"github.com/oscarfed/oscarfed/store"
	"github.com/oscarfed/oscarfed/store/record"
	"github.com/oscarfed/oscarfed/store/seal"
	"github.com/oscarfed/oscarfed/store/storetest"
	"github.com/oscarfed/oscarfed/store/storetest/virtual"
)

// newController makes a controller over an empty store. It sees nothing of what is written
// unless its mirror runs.
func newController(t *testing.T) (*Controller, *store.Store) {
	t.Helper()
	st, log := virtual.Open(t), storetest.Logger(t)
	identity, err := seal.Generate()
	if err != nil {
		t.Fatal(err)
	}
	var c *Controller
	mirror := st.NewMirror(store.MirrorConfig{Prefixes: []string{record.Root}, OnRelist: func(r store.Relist) { c.Relisted(r) }})
	state := view.NewState(mirror, time.Now)
	g, err := gate.New(gate.Config{Store: st, State: state, Now: time.Now, Logger: log, Registry: prometheus.NewRegistry()})
	if err != nil {
		t.Fatal(err)
	}
	sealer := identity.Sealer(time.Now)
	tok := tokens.New(tokens.Config{Store: st, State: state, Gate: g, Identity: identity, Sealer: sealer, Now: time.Now, Logger: log})
	c, err = New(Config{
		Store: st, State: state, Gate: g, Tokens: tok, Identity: identity, Now: time.Now, Logger: log, Registry: prometheus.NewRegistry(),
		Federations: federations.New(federations.Config{Store: st, State: state, Gate: g, Tokens: tok, Identity: identity, Sealer: sealer, Now: time.Now, Logger: log}),
	})
	if err != nil {
		t.Fatal(err)
	}
	return c, st
}

func write(t *testing.T, st *store.Store, records map[string]any) {
	t.Helper()
	_, err := st.Update(t.Context(), store.Update{Build: func(_ store.View, tx *store.Txn) error {
		for key, rec := range records {
			tx.Put(key, rec)
		}
		return nil
	}})
	if err != nil {
		t.Fatal(err)
	}
}

// TestAnInstanceThatLagsDoesNotSayThatNothingWasChanged: it was committed, and the caller's
// time ended before this instance saw it.
func TestAnInstanceThatLagsDoesNotSayThatNothingWasChanged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, st := newController(t)
		tombstone := record.Desired{V: record.Version, Intent: record.IntentDelete, UID: "u", Federation: "f"}
		write(t, st, map[string]any{
			record.MetaKey:                        record.Meta{V: record.Version, Epoch: "e"},
			record.FederationKey("f"):             record.Federation{V: record.Version, UID: "f", Phase: record.PhaseDeleting},
			record.DesiredServiceKey("a", "gone"): tombstone,
		})
		d := &difference{Difference: v1.Difference{ClusterID: "a", ServiceName: "gone", UID: "u", Federation: "f"}}
		for name, write := range map[string]func(context.Context) error{
			"a question to a cluster": func(ctx context.Context) error { return c.ask(ctx, ResolveRequest{}, d) },
			"a deletion that is insisted on": func(ctx context.Context) error {
				return c.amendTombstone(ctx, ResolveRequest{RequestID: "r"}, d, &record.Branch{Epoch: "e", Generation: 2})
			},
			"the tombstone of what is foreign": func(ctx context.Context) error {
				return c.writeOrphan(ctx, orphanStep{cluster: "a", service: "other", put: &tombstone,
					deleted: view.Versioned[record.Deleted]{Rec: &record.Deleted{V: record.Version, UID: "o", Federation: "g"}}})
			},
		} {
			err := fault.Crossing(storetest.CancelAfterCommit(t, st, write))
			if e, ok := errors.AsType[*fault.Error](err); !ok || e.Code != fault.CodeUnknownOutcome {
				t.Errorf("%s is told as: %v", name, err)
			}
		}
	})
}

// TestARestoreIsOneEpochHoweverManyHaveSeenIt: several instances see that the store was
// restored. One begins an epoch; the suspicions of the others are older than that, and are
// settled by it.
func TestARestoreIsOneEpochHoweverManyHaveSeenIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, st := newController(t)
		first := record.NewUID()
		write(t, st, map[string]any{record.MetaKey: record.Meta{V: record.Version, Schema: 1, ControlPlane: record.NewUID(), Epoch: first}})
		ctx, cancel := context.WithCancel(t.Context())
		running, ctx := errgroup.WithContext(ctx)
		running.Go(func() error { return c.state.Mirror.Run(ctx) })
		<-c.state.Mirror.Synced()
		c.state.Refresh()
		running.Go(func() error { return c.state.Run(ctx) })
		running.Go(func() error { return c.Run(ctx) })
		defer func() {
			cancel()
			if err := running.Wait(); !errors.Is(err, context.Canceled) {
				t.Error(err)
			}
		}()
		within := time.After(5 * time.Minute)
		epochs := func() []string {
			t.Helper()
			meta, err := readMeta(ctx, st)
			if err != nil {
				t.Fatal(err)
			}
			return append(meta.Epochs, meta.Epoch)
		}
		settle := func(found suspicion) {
			t.Helper()
			c.gate.Suspect()
			c.suspicions <- found
			tick := time.NewTicker(5 * time.Millisecond)
			defer tick.Stop()
			for c.gate.Unverified() {
				select {
				case <-tick.C:
				case <-within:
					t.Fatal("the suspicion stays")
				}
			}
		}

		if _, err := renew(ctx, st, suspicion{epoch: first}, time.Now()); err != nil { // another instance
			t.Fatal(err)
		}
		settle(suspicion{why: "it does not have revision 100", epoch: first})
		if now := epochs(); len(now) != 2 {
			t.Errorf("a suspicion that another instance had settled has left the epochs %v", now)
		}
		settle(suspicion{why: "it does not have revision 200", epoch: epochs()[1]})
		if now := epochs(); len(now) != 3 {
			t.Errorf("a suspicion of the present epoch has left the epochs %v", now)
		}
		// The backup was older than an earlier restore, of which all instances know.
		for range 3 {
			settle(suspicion{why: "it does not have epoch e", epoch: "e"})
		}
		if now := epochs(); len(now) != 5 || now[2] != "e" {
			t.Errorf("suspicions of a lost epoch have left the epochs %v", now)
		}
		var epoch string
		if err := c.state.Wait(ctx, c.state.Mirror.Revision()); err != nil {
			t.Fatal(err)
		}
		c.state.Read(func(v *view.View) { epoch = v.Meta.Epoch })
		if epoch != epochs()[4] {
			t.Errorf("the instance goes on in epoch %q", epoch)
		}
	})
}

// TestAStoreThatIsRestoredAgainBeforeItsEpochIsSeenGetsAnother: the second restore loses nothing that
// this instance has seen of the store, so no listing tells of it.
func TestAStoreThatIsRestoredAgainBeforeItsEpochIsSeenGetsAnother(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, st := newController(t)
		backup := record.Meta{V: record.Version, Schema: 1, ControlPlane: record.NewUID(), Epoch: record.NewUID()}
		write(t, st, map[string]any{record.MetaKey: backup})
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		found := suspicion{why: "it does not have revision 100", epoch: backup.Epoch}
		begun := make(chan error, 1)
		go func() { begun <- c.beginEpoch(ctx, &found) }()
		lost := &backup // until it has begun an epoch, and waits for its mirror, which does not run
		for lost.Epoch == backup.Epoch {
			<-time.After(time.Second)
			var err error
			if lost, err = readMeta(ctx, st); err != nil {
				t.Fatal(err)
			}
		}
		write(t, st, map[string]any{record.MetaKey: backup})

		var running errgroup.Group
		running.Go(func() error { return c.state.Mirror.Run(ctx) })
		running.Go(func() error { return c.state.Run(ctx) })
		if err := <-begun; !errors.Is(err, store.ErrUnavailable) {
			t.Errorf("the first try ended with %v", err)
		}
		if err := c.beginEpoch(ctx, &found); err != nil {
			t.Errorf("the second try: %v", err)
		}
		now, err := readMeta(ctx, st)
		if want := []string{lost.Epoch, backup.Epoch}; err != nil || !slices.Equal(now.Epochs, want) {
			t.Errorf("the epochs before %s are %v, and not %v (%v)", now.Epoch, now.Epochs, want, err)
		}
		cancel()
		_ = running.Wait() // both end with ctx
	})
}

// TestARequestThatWaitsForTheListingOfARestoredStoreIsRefused: it was answered from the restored
// store before that had a new epoch, since it had come before the restore was noticed.
func TestARequestThatWaitsForTheListingOfARestoredStoreIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, st := newController(t)
		meta := record.Meta{V: record.Version, Schema: 1, ControlPlane: record.NewUID(), Epoch: record.NewUID()}
		write(t, st, map[string]any{record.MetaKey: meta})
		mirrored := func() (stop func()) {
			ctx, cancel := context.WithCancel(t.Context())
			var running errgroup.Group
			running.Go(func() error { return c.state.Mirror.Run(ctx) })
			return func() {
				cancel()
				if err := running.Wait(); err != nil {
					t.Error(err)
				}
			}
		}
		cutOff := mirrored()
		<-c.state.Mirror.Synced()
		c.state.Refresh()
		cutOff()
		meta.Epoch = record.NewUID() // of another history
		write(t, st, map[string]any{record.MetaKey: meta})
		answered := make(chan error, 1)
		go func() { answered <- c.gate.Fresh(t.Context()) }()
		<-time.After(time.Second) // the request waits for the mirror
		defer mirrored()()
		if e, ok := errors.AsType[*fault.Error](<-answered); !ok || e.Code != fault.CodeUnavailable {
			t.Errorf("it is answered: %v", e)
		}
	})
}

// TestARestoreThatOnlyASyncerSawIsTold: no instance has seen the store before. What a syncer says
// closes the store for nobody.
func TestARestoreThatOnlyASyncerSawIsTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, st := newController(t)
		write(t, st, map[string]any{
			record.MetaKey:                 record.Meta{V: record.Version, Schema: 1, ControlPlane: record.NewUID(), Epoch: record.NewUID()},
			record.SessionKey("a"):         record.Session{V: record.Version},
			record.ObservedClusterKey("a"): record.ObservedCluster{V: record.Version, Reason: record.ReasonStoreRestored},
			record.ObservedClusterKey("b"): record.ObservedCluster{V: record.Version, Reason: record.ReasonStoreRestored}, // it is away
		})
		ctx, cancel := context.WithCancel(t.Context())
		var running errgroup.Group
		running.Go(func() error { return c.state.Mirror.Run(ctx) })
		<-c.state.Mirror.Synced()
		c.state.Refresh()
		if n := c.restoresSeen(); n != 1 || c.gate.Unverified() {
			t.Errorf("%v clusters saw a restore; the store is closed: %v", n, c.gate.Unverified())
		}
		if do := hint.ForReason(record.ReasonStoreRestored, "a"); !strings.Contains(do, "--restored") {
			t.Errorf("what a person can do: %q", do)
		}
		cancel()
		if err := running.Wait(); err != nil {
			t.Error(err)
		}
	})
}
