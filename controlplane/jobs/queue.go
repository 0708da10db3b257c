package jobs

import (
	"cmp"
	"slices"

	"github.com/oscarfed/oscarfed/controlplane/view"
	"github.com/oscarfed/oscarfed/store/record"
)

// Queued jobs are served fairly. The next assignment goes to the account that has the fewest
// jobs at its members, and of its federations to the one with the fewest. So a long queue does
// not delay other accounts, and a later account gets an equal share as jobs end. A single
// account may use all capacity.

// jobQueue holds the queued jobs of one account in one federation.
type jobQueue struct {
	federation, account string
	// ids are in the order of acceptance.
	ids view.List
	// ofAccount and ofFederation count the jobs at the member that has the fewest of them.
	ofAccount, ofFederation int
}

// queuesOf are the queues of a federation.
func queuesOf(v *view.View, uid string, members []record.Member) []*jobQueue {
	var out []*jobQueue
	for account, ids := range v.Jobs.Queued.Get(uid).All() {
		q := &jobQueue{federation: uid, account: account, ids: ids, ofAccount: -1, ofFederation: -1}
		for _, m := range members {
			if !m.Replica() {
				continue
			}
			least(&q.ofAccount, v.Jobs.Holds.Get(view.Holding{Cluster: m.ClusterID, Account: account}))
			least(&q.ofFederation, v.Jobs.Holds.Get(view.Holding{Cluster: m.ClusterID, Federation: uid}))
		}
		out = append(out, q)
	}
	return out
}

// least keeps the smaller of two counts; -1 is none yet.
func least(have *int, n int) {
	if *have < 0 || n < *have {
		*have = n
	}
}

// served counts the jobs that a round has assigned.
type served struct{ ofAccount, ofFederation map[string]int }

func (t served) compare(a, b *jobQueue) int {
	return cmp.Or(
		cmp.Compare(a.ofAccount+t.ofAccount[a.account], b.ofAccount+t.ofAccount[b.account]),
		cmp.Compare(a.ofFederation+t.ofFederation[a.federation], b.ofFederation+t.ofFederation[b.federation]),
		cmp.Compare(a.ids.First(), b.ids.First()),
	)
}

// serve calls assign for the jobs of all queues in fair order, until it returns stop. assign says
// whether it has assigned the job.
func serve(queues []*jobQueue, assign func(id string) (assigned, stop bool)) {
	taken := served{map[string]int{}, map[string]int{}}
	for len(queues) > 0 {
		q := slices.MinFunc(queues, taken.compare)
		for q.ids.Len() > 0 {
			assigned, stop := assign(q.ids.First())
			if stop {
				return
			}
			q.ids = q.ids.Rest()
			if assigned {
				taken.ofAccount[q.account]++
				taken.ofFederation[q.federation]++
				break
			}
		}
		if q.ids.Len() == 0 {
			queues = slices.DeleteFunc(queues, func(o *jobQueue) bool { return o == q })
		}
	}
}
