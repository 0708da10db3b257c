package jobs

import (
	"cmp"
	"container/heap"
	"fmt"

	"github.com/oscarfed/oscarfed/controlplane/delegation"
	"github.com/oscarfed/oscarfed/controlplane/view"
	"github.com/oscarfed/oscarfed/store/record"
)

// head is a class of queued jobs while a round goes through them.
type head struct {
	fed     *record.Federation
	account string
	class   view.Class
	request delegation.Request
	// jobs are those that the round has not looked at, in the order of acceptance.
	jobs view.List
	// rank is the place in the order. It is a lower bound until the first job's member is
	// chosen.
	rank rank
}

// rank orders the classes: the smallest share comes first. Shares are equal where definitions ask
// for nothing: then the number of jobs counts, and at last the order of acceptance.
type rank struct {
	account, federation         float64
	accountJobs, federationJobs int
	first                       Position
}

func (r rank) compare(o rank) int {
	return cmp.Or(
		cmp.Compare(r.account, o.account), cmp.Compare(r.accountJobs, o.accountJobs),
		cmp.Compare(r.federation, o.federation), cmp.Compare(r.federationJobs, o.federationJobs),
		cmp.Compare(r.first, o.first),
	)
}

// heads is a heap of classes by their ranks.
type heads []*head

func (q heads) Len() int           { return len(q) }
func (q heads) Less(i, j int) bool { return q[i].rank.compare(q[j].rank) < 0 }
func (q heads) Swap(i, j int)      { q[i], q[j] = q[j], q[i] }

// Push is of container/heap.
func (q *heads) Push(h any) { *q = append(*q, h.(*head)) } //nolint:forcetypeassert // heads alone are pushed

// Pop is of container/heap.
func (q *heads) Pop() any {
	old := *q
	last := old[len(old)-1]
	*q = old[:len(old)-1]
	return last
}

// lowest is the smallest rank that the first job of a class can have: at one of the clusters that
// have room for it. It is false when none has.
func (p *round) lowest(v *view.View, h *head) (rank, bool) {
	var out rank
	found := false
	for _, m := range h.fed.Members {
		at := p.rankOfFree(h)
		if m.Replica() {
			c := p.cluster(v, m.ClusterID)
			if !c.room(h.request) {
				continue
			}
			at = p.rankAt(v, h, c)
		}
		if !found || at.compare(out) < 0 {
			out, found = at, true
		}
	}
	return out, found
}

// queue enters a class, if any member has room for its jobs.
func (p *round) queue(v *view.View, h *head) (queued bool) {
	rank, ok := p.lowest(v, h)
	if !ok {
		return false
	}
	h.rank = rank
	heap.Push(&p.heads, h)
	return true
}

// serve assigns the first jobs of the classes in the order of their ranks, until the transaction
// is full or none is left. Each round is in the order of what the clusters have when it looks:
// the rank of a class is that at the cluster that its first job goes to, and grows with each of
// its jobs.
func (p *round) serve(v *view.View) {
	for p.heads.Len() > 0 {
		if len(p.steps) >= assignAtOnce || p.bytes >= assignBytes {
			p.more = true
			for _, h := range p.heads {
				p.left[h.fed.UID] = true
			}
			return
		}
		h := heap.Pop(&p.heads).(*head) //nolint:forcetypeassert // heads alone are pushed
		choice, ok := p.choose(v, h)
		if !ok {
			continue
		}
		if at := p.rankOf(v, h, choice); p.heads.Len() > 0 && p.heads[0].rank.compare(at) < 0 {
			h.rank = at
			heap.Push(&p.heads, h)
			continue
		}
		p.assign(v, h, choice)
		if h.jobs = h.jobs.Rest(); !h.jobs.Empty() {
			p.queue(v, h)
		}
	}
}

// whyWaits is why a queued job waits, as its record says or that of the first job of its class.
func whyWaits(v *view.View, j *record.Job) (record.JobReason, string) {
	class := v.Jobs.Queued.Get(j.Federation).Get(view.AccountOf(j)).Get(view.ClassOf(j))
	if j.Reason != "" || class.Empty() {
		return j.Reason, j.Message
	}
	first := v.Jobs.ByID.Get(class.First().ID()).Rec
	if first.Reason != record.JobNoCandidate {
		return j.Reason, j.Message
	}
	return first.Reason, view.Shorten(fmt.Sprintf("%d of its jobs wait before it: %s", class.Before(view.PositionOf(j)).Len(), first.Message), maxMessage)
}
