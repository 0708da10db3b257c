package controlplane

import (
	"cmp"
	"slices"

	"github.com/oscarfed/oscarfed/store/record"
)

// The jobs that wait are served in turns. While others wait, the next place goes to the
// account that has the fewest jobs where it may go, and of its federations to the one with
// the fewest. So a long queue holds nobody else's jobs up, and whoever comes later has as
// much as the others when theirs have ended; alone an account may have everything.

// jobQueue holds the queued jobs of one account in one federation.
type jobQueue struct {
	federation, account string
	// ids are in the order of acceptance.
	ids []string
	// ofAccount and ofFederation count the jobs that stand at the member with the fewest.
	ofAccount, ofFederation int
}

// holding is who has jobs at a cluster: an account or, without one, a federation.
type holding struct{ cluster, account, federation string }

// standsAt is the cluster where an attempt of a job stands, or nothing.
func standsAt(j *record.Job) string {
	if j.State == record.JobQueued || j.State.Ended() || j.Place == nil || j.Place.URL != "" {
		return ""
	}
	return j.Place.ClusterID
}

// enqueue notes, or forgets, that a job is queued.
func (x *jobIndex) enqueue(j *record.Job, there bool) {
	account := accountOf(j)
	accounts := x.queued[j.Federation]
	if there {
		if accounts == nil {
			accounts = map[string][]string{}
			x.queued[j.Federation] = accounts
		}
		accounts[account] = addID(accounts[account], j.Job)
		return
	}
	if left := dropID(accounts[account], j.Job); len(left) > 0 {
		accounts[account] = left
		return
	}
	delete(accounts, account)
	if len(accounts) == 0 {
		delete(x.queued, j.Federation)
	}
}

// hold counts a job at a cluster, or counts it no more.
func (x *jobIndex) hold(j *record.Job, cluster string, by int) {
	for _, h := range []holding{{cluster: cluster, account: accountOf(j)}, {cluster: cluster, federation: j.Federation}} {
		if x.holds[h] += by; x.holds[h] == 0 {
			delete(x.holds, h)
		}
	}
}

// queuesOf are the queues of a federation.
func (v *View) queuesOf(uid string, members []record.Member) []*jobQueue {
	var out []*jobQueue
	for account, ids := range v.jobs.queued[uid] {
		q := &jobQueue{federation: uid, account: account, ids: ids, ofAccount: -1, ofFederation: -1}
		for _, m := range members {
			if !m.Replica() {
				continue
			}
			least(&q.ofAccount, v.jobs.holds[holding{cluster: m.ClusterID, account: account}])
			least(&q.ofFederation, v.jobs.holds[holding{cluster: m.ClusterID, federation: uid}])
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

// passTurns counts what a pass has assigned.
type passTurns struct{ ofAccount, ofFederation map[string]int }

func (t passTurns) compare(a, b *jobQueue) int {
	return cmp.Or(
		cmp.Compare(a.ofAccount+t.ofAccount[a.account], b.ofAccount+t.ofAccount[b.account]),
		cmp.Compare(a.ofFederation+t.ofFederation[a.federation], b.ofFederation+t.ofFederation[b.federation]),
		cmp.Compare(a.ids[0], b.ids[0]),
	)
}

// serve calls place for the jobs of all queues in their turns, until it says stop. place says
// whether it has assigned one.
func serve(queues []*jobQueue, place func(id string) (assigned, stop bool)) {
	taken := passTurns{map[string]int{}, map[string]int{}}
	for len(queues) > 0 {
		q := slices.MinFunc(queues, taken.compare)
		for len(q.ids) > 0 {
			assigned, stop := place(q.ids[0])
			if stop {
				return
			}
			q.ids = q.ids[1:]
			if assigned {
				taken.ofAccount[q.account]++
				taken.ofFederation[q.federation]++
				break
			}
		}
		if len(q.ids) == 0 {
			queues = slices.DeleteFunc(queues, func(o *jobQueue) bool { return o == q })
		}
	}
}
