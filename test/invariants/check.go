package invariants

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"

	"github.com/oscarfed/oscarfed/store"
	"github.com/oscarfed/oscarfed/store/record"
)

// Options of a check.
type Options struct {
	// Secrets must not appear in any key or value, in the clear or in a common
	// encoding. Each has at least 8 bytes, or it would be found by chance.
	Secrets []string
	// Fenced demands that a service is reported on only while its cluster's
	// session exists. Real syncers do so; stand-ins of tests may not.
	Fenced bool
	// Breaks are rules that the test itself breaks on purpose, by writes of its own.
	// They are in the report like all others; a guard forgives them, and fails the
	// test when one was not broken.
	Breaks []Rule
	// Connect changes how etcd is reached: one with users is read as root.
	Connect func(*store.Config)

	// everything makes the rules look at all federations at each revision, instead
	// of those that it concerns: tests compare the two.
	everything bool
}

// reach completes how etcd is reached.
func (o Options) reach(cfg store.Config) store.Config {
	cfg.Logger = slog.New(slog.DiscardHandler)
	if o.Connect != nil {
		o.Connect(&cfg)
	}
	return cfg
}

// Check reads the whole history of the etcd at an endpoint, or at several with commas
// between them, from revision 1 to the present one, and checks every revision. A history that was compacted is
// store.ErrCompacted. Violations are in the report, not in the error.
func Check(ctx context.Context, endpoint string, opts Options) (*Report, error) {
	s, err := store.Open(ctx, opts.reach(store.Config{Endpoints: strings.Split(endpoint, ",")}))
	if err != nil {
		return nil, fmt.Errorf("check of %s: %w", endpoint, err)
	}
	report, err := CheckStore(ctx, s, opts)
	return report, errors.Join(err, s.Close())
}

// CheckStore is Check for a store that is open already.
func CheckStore(ctx context.Context, s *store.Store, opts Options) (*Report, error) {
	return checkFrom(ctx, s, opts, nil, 0)
}

// checkFrom is CheckStore for a store that was restored from a backup: what stood at
// a revision, where its history begins, is taken as it is.
func checkFrom(ctx context.Context, s *store.Store, opts Options, stood []store.KV, at int64) (*Report, error) {
	r, err := NewReplay(opts)
	if err != nil {
		return nil, err
	}
	r.checker.begin(at, stood)
	return r.Finish(ctx, s)
}

// begin takes over what stands when a history begins, without judging it.
func (c *checker) begin(at int64, stood []store.KV) {
	if len(stood) == 0 {
		return
	}
	var events []store.Event
	for _, kv := range stood {
		events = append(events, store.Event{KV: kv})
	}
	c.step(at, events)
	for _, e := range c.keys {
		if o := as[record.Observed](e); o != nil && o.Vote != nil && c.past.lives[o.UID] != nil {
			c.past.lives[o.UID].prepares[o.Vote.Revision] = true
		}
		if d := as[record.Deleted](e); d != nil {
			c.past.live(d.UID, place{d.ClusterID, d.ServiceName}, d.Federation).removed = true
		}
		if d := as[record.Desired](e); d != nil { // that it was left behind may be forgotten since
			at := placeOfRef(record.ParseKey(e.kv.Key))
			if spec := as[record.Spec](c.keys[at.specKey(d)]); spec != nil {
				for _, b := range spec.Left {
					add(c.past.left, ownedPlace{d.Owner, at}, b)
				}
			}
		}
	}
	c.stood = at
	c.report, c.told = newReport(at), map[Violation]bool{}
	c.stoodIn = c.present()
}

// sameAs compares the replayed state with a list of the same revision: a replay
// that lost something would prove nothing.
func (c *checker) sameAs(present []store.KV) error {
	for _, kv := range present {
		e := c.keys[kv.Key]
		if e == nil || e.kv.ModRevision != kv.ModRevision {
			return fmt.Errorf("the replayed history has not %s as it was written at revision %d", kv.Key, kv.ModRevision)
		}
	}
	if len(present) != len(c.keys) {
		return fmt.Errorf("the replayed history ends with %d keys, the store has %d", len(c.keys), len(present))
	}
	return nil
}
