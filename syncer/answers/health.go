package answers

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

// Condition is why nothing can be done on this cluster now, in words for the users that wait
// for it; the zero value is none.
type Condition struct {
	Reason  record.Reason
	Message string
	// Lasting says that waiting alone does not help: nothing listens at OSCAR's address,
	// or it does not let us in.
	Lasting bool
}

// opLease stands for the Lease among the calls that are watched.
const opLease manager.Op = "lease"

// ConditionOf is what an error of OSCAR says about the cluster. It is false for errors of
// others.
func ConditionOf(err error) (Condition, bool) {
	api, ok := errors.AsType[*manager.APIError](err)
	if !ok {
		return Condition{}, false
	}
	storage := api.Op == manager.OpBuckets || api.Op == manager.OpBucket
	why, lasting := api.Unreachable()
	switch {
	case manager.Refused(err):
		return Condition{record.ReasonCredentialRefused, CredentialRefused, true}, true
	case errors.Is(err, manager.ErrNoPassword):
		return Condition{record.ReasonCredentialRefused, "the syncer cannot read the password of its OSCAR; its operator must mend the password file", true}, true
	case storage && (api.Status >= 500 || errors.Is(err, context.DeadlineExceeded)):
		return Condition{Reason: record.ReasonStorageUnreachable, Message: "the cluster's OSCAR does not reach its MinIO: " + answered(api, why)}, true
	}
	return Condition{record.ReasonOscarUnreachable, "the cluster's OSCAR does not answer: " + answered(api, why), lasting}, true
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

// Hangs is the condition while a call has no answer yet.
func Hangs(op manager.Op) Condition {
	if op == manager.OpBuckets {
		return Condition{Reason: record.ReasonStorageUnreachable, Message: "the cluster's OSCAR does not answer for its MinIO: it takes the question for its buckets, and is silent"}
	}
	return Condition{Reason: record.ReasonOscarUnreachable, Message: "the cluster's OSCAR does not answer: it takes requests, and is silent"}
}

// NoLease is the condition of a syncer that may not write.
func NoLease(err error) Condition {
	return Condition{Reason: record.ReasonNoLease, Message: kube.WhyNoLease(err)}
}

// How long a trouble is seen, again and again, before it counts. OSCAR
// restarts its MinIO in each creation and deletion, which takes 6 s.
const (
	surelyAfter  = time.Second
	storageAfter = 10 * time.Second
)

// trouble is a condition that one call meets, with when it was first and last seen, and
// since when it is a lasting one.
type trouble struct {
	Condition
	since, seen time.Time
	lastingFrom time.Time
}

// more says that it has lasted long enough to count.
func (t *trouble) more() bool {
	after := surelyAfter
	if t.Reason == record.ReasonStorageUnreachable {
		after = storageAfter
	}
	return t.seen.Sub(t.since) >= after
}

// Health is how OSCAR has answered last, call by call: one that is answered says nothing
// about another that needs MinIO, or Kubernetes.
type Health struct {
	mu       sync.Mutex
	troubles map[manager.Op]*trouble
	// told says that a trouble counted and has not ended.
	told bool
	now  func() time.Time
	// news rings when a trouble begins, and recovered when one that was told has ended.
	news, recovered func()
}

func newHealth(now func() time.Time, news, recovered func()) *Health {
	return &Health{now: now, troubles: map[manager.Op]*trouble{}, news: news, recovered: recovered}
}

// noting keeps how OSCAR answers a call that many share.
func noting[T any](h *Health, op manager.Op, fetch func(context.Context) (T, error)) func(context.Context) (T, error) {
	return func(ctx context.Context) (T, error) {
		v, err := fetch(ctx)
		if c, known := ConditionOf(err); known && ctx.Err() == nil {
			h.Failed(op, c)
		} else if err == nil {
			h.answered(op)
		}
		return v, err
	}
}

// Failed notes that a call met a condition.
func (h *Health) Failed(op manager.Op, c Condition) {
	h.mu.Lock()
	now := h.now()
	was := h.troubles[op]
	t := &trouble{Condition: c, since: now, seen: now, lastingFrom: now}
	if was != nil {
		t.since = was.since
		if was.Lasting && c.Lasting {
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

func (h *Health) answered(op manager.Op) {
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

// Lasts says that waiting does not help: what keeps us from asking was seen twice.
func (h *Health) Lasts() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, t := range h.troubles {
		if t.Lasting && t.seen.Sub(t.lastingFrom) >= surelyAfter {
			return true
		}
	}
	return false
}

// Standing is the condition of the cluster, once a trouble counts, and since when there has been
// one without a break.
func (h *Health) Standing() (c Condition, since time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, op := range watchedOps() {
		t := h.troubles[op]
		if t == nil || !t.more() {
			continue
		}
		if c.Reason == "" {
			c, since = t.Condition, t.since
		}
		if t.since.Before(since) {
			since = t.since
		}
	}
	return c, since
}

// Troubled lists the calls that were not answered last.
func (h *Health) Troubled() []manager.Op {
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

// CredentialRefused says what is to be done about a 401.
const CredentialRefused = "the cluster's OSCAR does not accept the syncer's credential; its operator must correct the user or the password file of the syncer"
