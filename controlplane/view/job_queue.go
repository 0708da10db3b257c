package view

import (
	"github.com/oscarfed/oscarfed/store/record"
)

// Holding is who has jobs at a cluster: an account or, without one, a federation.
type Holding struct{ Cluster, Account, Federation string }

// standsAt is the cluster where an attempt of a job stands, or nothing.
func standsAt(j *record.Job) string {
	if j.State == record.JobQueued || j.State.Ended() || j.Place == nil || j.Place.URL != "" {
		return ""
	}
	return j.Place.ClusterID
}

// enqueue notes, or forgets, that a job is queued.
func (x *jobIndex) enqueue(j *record.Job, there bool) {
	account := AccountOf(j)
	accounts := x.Queued[j.Federation]
	if there {
		if accounts == nil {
			accounts = map[string][]string{}
			x.Queued[j.Federation] = accounts
		}
		accounts[account] = AddID(accounts[account], j.Job)
		return
	}
	if left := DropID(accounts[account], j.Job); len(left) > 0 {
		accounts[account] = left
		return
	}
	delete(accounts, account)
	if len(accounts) == 0 {
		delete(x.Queued, j.Federation)
	}
}

// hold counts a job at a cluster, or counts it no more.
func (x *jobIndex) hold(j *record.Job, cluster string, by int) {
	for _, h := range []Holding{{Cluster: cluster, Account: AccountOf(j)}, {Cluster: cluster, Federation: j.Federation}} {
		if x.Holds[h] += by; x.Holds[h] == 0 {
			delete(x.Holds, h)
		}
	}
}
