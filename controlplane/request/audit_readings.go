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
	// readingsEach is how many readings of one cluster are entered a second, and
	// readingsBurst how many at once: an access token lasts minutes, and each has one.
	readingsEach, readingsBurst = 1, 200
	// excessAfter is when those that were not entered are, together.
	excessAfter = time.Minute
)

// excessReadings counts, for each cluster, the readings that are not entered.
type excessReadings struct {
	mu    sync.Mutex
	rates map[string]*rate.Limiter
	n     map[string]int
}

// admit says whether a reading of a cluster is entered. Of those that are not, first is
// true for the one that an entry about all of them is due for.
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

// take is how many were not entered since it was asked last.
func (x *excessReadings) take(cluster string) int {
	x.mu.Lock()
	defer x.mu.Unlock()
	n := x.n[cluster]
	delete(x.n, cluster)
	return n
}

// moveReading moves what a syncer reports of a refresh token that it has read into the
// audit, where no syncer can take it away again. It is one transaction: the entry comes and the report goes. A report
// without an outcome is left for as long as it answers. What is reported by another than
// the holder, or too often, goes without an entry of its own.
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
			// It can be no report, whoever put it there.
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

// holds says whether a cluster holds the refresh token of a federation, or did when the
// federation was there.
func (c *Controller) holds(cluster, federation string) bool {
	found := false
	c.state.Read(func(v *view.View) {
		if holder, h := v.Tokens[federation].Hold(); h.Rec != nil {
			found = holder == cluster
			return
		}
		if f, ok := v.Federations[federation]; ok {
			at := f.Rec.Coordinator()
			found = at != nil && at.ClusterID == cluster
			return
		}
		for _, d := range v.Deleted {
			if found = d.Rec.Federation == federation && d.Rec.ClusterID == cluster; found {
				return
			}
		}
	})
	return found
}

// excessKey stands in the queue for the entry about a cluster's readings that were not
// entered.
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

// entryOfReading trusts the syncer for what it did, and for nothing else: whose
// federation it is the store knows.
func (c *Controller) entryOfReading(cluster string, r *record.Reading) record.Audit {
	e := record.Audit{Action: record.ActionReadToken, Outcome: record.OutcomeDone, ClusterID: cluster}
	c.state.Read(func(v *view.View) {
		if f, ok := v.Federations[r.Federation]; ok {
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
