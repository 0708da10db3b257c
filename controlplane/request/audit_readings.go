package request

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/oscarfed/oscarfed/controlplane/view"
	"github.com/oscarfed/oscarfed/store"
	"github.com/oscarfed/oscarfed/store/record"
)

// readingGrace is how long a syncer has to report the outcome of a reading before
// the audit says that it is unknown.
const readingGrace = 10 * time.Minute

const (
	// readingsEach is how many readings of one cluster are entered per second, and
	// readingsBurst how many at once. An access token lasts minutes, and each one costs a
	// reading.
	readingsEach, readingsBurst = 1, 200
	// excessAfter is the pause before one entry sums up the readings that were not entered.
	excessAfter = time.Minute
)

// excessReadings counts, for each cluster, the readings that are not entered.
type excessReadings struct {
	mu    sync.Mutex
	rates map[string]*rate.Limiter
	n     map[string]int
}

// admit says whether a reading of a cluster is entered. first is true for the first reading
// that is not entered: it makes an entry about all of them due.
func (x *excessReadings) admit(cluster string, now time.Time, holds func() bool) (ok, first bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.rates == nil {
		x.rates, x.n = map[string]*rate.Limiter{}, map[string]int{}
	}
	limit := x.rates[cluster]
	if limit == nil {
		limit = rate.NewLimiter(readingsEach, readingsBurst)
		x.rates[cluster] = limit
	}
	if limit.AllowN(now, 1) && holds() {
		return true, false
	}
	x.n[cluster]++
	return false, x.n[cluster] == 1
}

// take returns how many readings were not entered since the last call.
func (x *excessReadings) take(cluster string) int {
	x.mu.Lock()
	defer x.mu.Unlock()
	n := x.n[cluster]
	delete(x.n, cluster)
	return n
}

// moveReading moves a syncer's report that it has read a refresh token into the audit, where no
// syncer can remove it. One transaction writes the entry and deletes the report. A report
// without an outcome stays until the syncer has had time to add one. A report by another
// cluster than the holder, or one of too many, gets no entry of its own.
func (c *Controller) moveReading(ctx context.Context, key string) (wait time.Duration, err error) {
	if cluster, ok := excessOf(key); ok {
		return 0, c.noteExcess(ctx, cluster)
	}
	now, cluster := c.cfg.Now(), record.ParseKey(key).Cluster
	judged, entered := false, false
	_, err = c.store.Update(ctx, store.Update{Keys: []string{key}, Build: func(v store.View, tx *store.Txn) error {
		wait = 0
		kv, ok := v.KV(key)
		if !ok {
			return nil
		}
		r, err := store.Decode[record.Reading](kv)
		if err != nil {
			// It is no valid report, so it is entered as unreadable.
			r = &record.Reading{At: record.At(now), Outcome: "the report cannot be read"}
		}
		if age := now.Sub(r.At.Time); r.Outcome == "" && age >= 0 && age < readingGrace {
			wait = readingGrace - age
			return nil
		}
		if !judged { // once, however often it is tried
			var first bool
			judged = true
			if entered, first = c.excess.admit(cluster, time.Now(), func() bool { return c.holds(cluster, r.Federation) }); first {
				c.readings.AddAfter(excessKey(cluster), excessAfter)
			}
		}
		tx.Expect(key)
		tx.Delete(key)
		if entered {
			Note(tx, now, c.entryOfReading(cluster, r))
		}
		return nil
	}})
	return wait, err
}

// holds says whether a cluster holds the refresh token of a federation, or held it when the
// federation existed.
func (c *Controller) holds(cluster, federation string) bool {
	found := false
	c.state.Read(func(v *view.View) {
		if holder, h := v.Tokens.Hold(federation); h.Rec != nil {
			found = holder == cluster
			return
		}
		if f, ok := v.Federations.Lookup(federation); ok {
			at := f.Rec.Coordinator()
			found = at != nil && at.ClusterID == cluster
			return
		}
		for _, d := range v.Deleted.All() {
			if found = d.Rec.Federation == federation && d.Rec.ClusterID == cluster; found {
				return
			}
		}
	})
	return found
}

// excessKey is the queue's key for the entry about a cluster's readings that were not entered.
func excessKey(cluster string) string { return record.ReadingsPrefix(cluster) }

func excessOf(key string) (cluster string, ok bool) {
	if !strings.HasSuffix(key, "/") {
		return "", false
	}
	return record.ParseKey(key + "x").Cluster, true
}

func (c *Controller) noteExcess(ctx context.Context, cluster string) error {
	n := c.excess.take(cluster)
	if n == 0 {
		return nil
	}
	_, err := c.store.Update(ctx, store.Update{Build: func(_ store.View, tx *store.Txn) error {
		Note(tx, c.cfg.Now(), record.Audit{
			Action: record.ActionReadToken, Outcome: record.OutcomeRefused, ClusterID: cluster,
			Detail: fmt.Sprintf("%d more readings were reported and not entered: by another cluster than the holder, or more than %d a second", n, readingsEach),
		})
		return nil
	}})
	return err
}

// entryOfReading takes from the syncer only what it did; the owner of the federation comes from
// the store.
func (c *Controller) entryOfReading(cluster string, r *record.Reading) record.Audit {
	e := record.Audit{Action: record.ActionReadToken, Outcome: record.OutcomeDone, ClusterID: cluster}
	c.state.Read(func(v *view.View) {
		if f, ok := v.Federations.Lookup(r.Federation); ok {
			e.Federation, e.Owner, e.GroupID, e.Generation = f.Rec.UID, f.Rec.Owner, f.Rec.GroupID, f.Rec.Generation
		}
	})
	why := "an unknown use"
	switch r.Why {
	case record.ReadExchange:
		why = "exchanged for an access token"
	case record.ReadRevoke:
		why = "revoked at the issuer"
	}
	outcome := view.Shorten(r.Outcome, 100)
	if outcome == "" {
		e.Outcome, outcome = record.OutcomeUnknown, "its outcome was never reported"
	}
	e.Detail = fmt.Sprintf("token %d, at %s: %s: %s", r.Serial, r.At.UTC().Format(time.RFC3339), why, outcome)
	return e
}
