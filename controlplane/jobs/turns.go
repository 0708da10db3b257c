package jobs

import (
	"cmp"
	"sync"

	"github.com/oscarfed/oscarfed/internal/share"
)

// turns is the order in which jobs are sent to endpoints: next is the account that has the fewest
// under way, divided by its weight, and of its federations the one that has the fewest. A tenant that
// has as many as it may have gets none: so an endpoint that does not answer holds nobody else's jobs up.
// It implements workqueue.Queue.
type turns struct {
	// tenantOf is whose a job is.
	tenantOf func(job string) share.Tenant

	mu sync.Mutex
	// waiting are the jobs of each tenant in the order in which they came.
	waiting map[share.Tenant][]arrival
	// arrivals counts all that ever came.
	arrivals int64
	// sending are the jobs under way, and held counts them.
	sending map[string]share.Tenant
	held    share.Held
}

// arrival is a job and its number among all that came.
type arrival struct {
	job    string
	number int64
}

func newTurns(tenantOf func(string) share.Tenant) *turns {
	return &turns{tenantOf: tenantOf, waiting: map[share.Tenant][]arrival{}, sending: map[string]share.Tenant{}}
}

// Touch is called for a job that waits already.
func (*turns) Touch(string) {}

// Push has a job wait.
func (t *turns) Push(job string) {
	tenant := t.tenantOf(job)
	t.mu.Lock()
	defer t.mu.Unlock()
	t.arrivals++
	t.waiting[tenant] = append(t.waiting[tenant], arrival{job, t.arrivals})
}

// Len is at most how many can be sent now, and 0 when none can. Nobody has to be woken when it grows with done: who
// calls that looks here next.
func (t *turns) Len() (n int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for tenant, jobs := range t.waiting {
		n += min(len(jobs), t.room(tenant))
	}
	return n
}

// room is how many jobs of a tenant may be sent besides those under way. It needs mu.
func (t *turns) room(of share.Tenant) int {
	return min(postsOfAccount-t.held.Of(of.Account), postsOfFederation-t.held.OfFederation(of))
}

// Pop gives the next job, which is under way until it is done.
func (t *turns) Pop() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	var next share.Tenant
	first := int64(0)
	for tenant, jobs := range t.waiting {
		if t.room(tenant) <= 0 {
			continue
		}
		if first == 0 || cmp.Or(t.held.Compare(tenant, next), cmp.Compare(jobs[0].number, first)) < 0 {
			next, first = tenant, jobs[0].number
		}
	}
	job := t.waiting[next][0].job
	if t.waiting[next] = t.waiting[next][1:]; len(t.waiting[next]) == 0 {
		delete(t.waiting, next)
	}
	t.sending[job] = next
	t.held.Add(next, 1)
	return job
}

// done says that a job is not under way any more.
func (t *turns) done(job string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.held.Add(t.sending[job], -1)
	delete(t.sending, job)
}
