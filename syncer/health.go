package syncer

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/oscarfed/oscarfed/store/record"
	"github.com/oscarfed/oscarfed/syncer/kube"
	"github.com/oscarfed/oscarfed/syncer/manager"
)

// condition is why nothing can be done on this cluster now, in words for those who wait
// for it; the zero value is none.
type condition struct {
	reason  record.Reason
	message string
	// lasting says that waiting alone does not help: nobody listens at OSCAR's address,
	// or it does not let us in.
	lasting bool
}

// opLease stands for the Lease among the calls that are watched.
const opLease manager.Op = "lease"

// conditionOf is what an error of OSCAR says about the cluster. It is false for errors of
// others.
func conditionOf(err error) (condition, bool) {
	api, ok := errors.AsType[*manager.APIError](err)
	if !ok {
		return condition{}, false
	}
	storage := api.Op == manager.OpBuckets || api.Op == manager.OpBucket
	why, lasting := api.Unreachable()
	switch {
	case manager.Refused(err):
		return condition{record.ReasonCredentialRefused, refusedCredential().message, true}, true
	case errors.Is(err, manager.ErrNoPassword):
		return condition{record.ReasonCredentialRefused, "the syncer cannot read the password of its OSCAR; its operator must mend the password file", true}, true
	case storage && (api.Status >= 500 || errors.Is(err, context.DeadlineExceeded)):
		return condition{reason: record.ReasonStorageUnreachable, message: "the cluster's OSCAR does not reach its MinIO: " + answered(api, why)}, true
	}
	return condition{record.ReasonOscarUnreachable, "the cluster's OSCAR does not answer: " + answered(api, why), lasting}, true
}

// answered is what OSCAR said, or why it said nothing.
func answered(api *manager.APIError, why string) string {
	if api.Status == 0 || api.Err != nil {
		return why
	}
	text := fmt.Sprintf("%s answered %d", api.Op, api.Status)
	if api.Body != "" {
		text += ": " + manager.Scrub(api.Body)
	}
	return text
}

// hangs is the condition while a call has no answer yet.
func hangs(op manager.Op) condition {
	if op == manager.OpBuckets {
		return condition{reason: record.ReasonStorageUnreachable, message: "the cluster's OSCAR does not answer for its MinIO: it takes the question for its buckets, and is silent"}
	}
	return condition{reason: record.ReasonOscarUnreachable, message: "the cluster's OSCAR does not answer: it takes requests, and is silent"}
}

// noLease is the condition of a syncer that may not write.
func noLease(err error) condition {
	return condition{reason: record.ReasonNoLease, message: kube.WhyNoLease(err)}
}

// How long a trouble is seen, again and again, before it is more than a hiccup. OSCAR
// restarts its MinIO in each creation and deletion, which takes 6 s.
const (
	surelyAfter  = time.Second
	storageAfter = 10 * time.Second
)

// trouble is a condition that one call meets, with when it was first and last seen, and
// since when it is a lasting one.
type trouble struct {
	condition
	since, seen time.Time
	lastingFrom time.Time
}

// more says that it is no hiccup.
func (t *trouble) more() bool {
	after := surelyAfter
	if t.reason == record.ReasonStorageUnreachable {
		after = storageAfter
	}
	return t.seen.Sub(t.since) >= after
}

// health is how OSCAR has answered last, call by call: one that is answered says nothing
// about another that needs MinIO, or Kubernetes.
type health struct {
	mu       sync.Mutex
	troubles map[manager.Op]*trouble
	// told is that a trouble was more than a hiccup and has not ended.
	told bool
	now  func() time.Time
	// news rings when a trouble begins, and recovered when one that was told has ended.
	news, recovered func()
}

func newHealth(now func() time.Time, news, recovered func()) *health {
	return &health{now: now, troubles: map[manager.Op]*trouble{}, news: news, recovered: recovered}
}

// noting keeps how OSCAR answers a call that many share.
func noting[T any](h *health, op manager.Op, fetch func(context.Context) (T, error)) func(context.Context) (T, error) {
	return func(ctx context.Context) (T, error) {
		v, err := fetch(ctx)
		if c, known := conditionOf(err); known && ctx.Err() == nil {
			h.failed(op, c)
		} else if err == nil {
			h.answered(op)
		}
		return v, err
	}
}

func (h *health) failed(op manager.Op, c condition) {
	h.mu.Lock()
	now := h.now()
	was := h.troubles[op]
	t := &trouble{condition: c, since: now, seen: now, lastingFrom: now}
	if was != nil {
		t.since = was.since
		if was.lasting && c.lasting {
			t.lastingFrom = was.lastingFrom
		}
	}
	h.troubles[op] = t
	h.told = h.told || t.more()
	h.mu.Unlock()
	if was == nil {
		h.news()
	}
}

func (h *health) answered(op manager.Op) {
	h.mu.Lock()
	delete(h.troubles, op)
	over := h.told && len(h.troubles) == 0
	h.told = h.told && !over
	h.mu.Unlock()
	if over {
		h.recovered()
	}
}

// watchedOps are the calls that are watched, the one that explains the others first.
func watchedOps() []manager.Op {
	return []manager.Op{manager.OpInfo, manager.OpList, manager.OpConfig, opLease, manager.OpBuckets}
}

// surely says that waiting does not help: what keeps us from asking was seen twice.
func (h *health) surely() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, t := range h.troubles {
		if t.lasting && t.seen.Sub(t.lastingFrom) >= surelyAfter {
			return true
		}
	}
	return false
}

// stands is the condition of the cluster, when it is more than a hiccup, and since when
// something is amiss without a break.
func (h *health) stands() (c condition, since time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, op := range watchedOps() {
		t := h.troubles[op]
		if t == nil || !t.more() {
			continue
		}
		if c.reason == "" {
			c, since = t.condition, t.since
		}
		if t.since.Before(since) {
			since = t.since
		}
	}
	return c, since
}

// troubled lists the calls that were not answered last.
func (h *health) troubled() []manager.Op {
	h.mu.Lock()
	defer h.mu.Unlock()
	var out []manager.Op
	for _, op := range watchedOps() {
		if h.troubles[op] != nil {
			out = append(out, op)
		}
	}
	return out
}
