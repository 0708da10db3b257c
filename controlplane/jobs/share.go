package jobs

import (
	"github.com/oscarfed/oscarfed/controlplane/delegation"
	"github.com/oscarfed/oscarfed/controlplane/view"
	"github.com/oscarfed/oscarfed/internal/share"
	"github.com/oscarfed/oscarfed/store/record"
)

// Accounts share a cluster by weighted dominant resource fairness (Ghodsi et al., NSDI 2011): a
// free place goes to the account with the smallest dominant share there. That is the largest part
// that its jobs take of one resource of the cluster, divided by the account's weight. The
// federations of an account share in the same way.

// Weights are those of accounts (subjects) and of federations (group ids). One without a weight
// has 1.
type Weights struct {
	Accounts, Federations map[string]float64
}

// Of are the weights of an account and of one of its federations.
func (w Weights) Of(account, groupID string) share.Weights {
	return share.Weights{Account: weight(w.Accounts, account), Federation: weight(w.Federations, groupID)}
}

func weight(of map[string]float64, name string) float64 {
	if w := of[name]; w > 0 {
		return w
	}
	return 1
}

// cluster is a cluster as one round sees it, with what the round adds.
type cluster struct {
	name string
	// open says that it takes jobs, and capacity what it has free.
	open     bool
	capacity delegation.Capacity
	// total is what all its nodes have for pods.
	total    delegation.Request
	promised []record.Promise
	// fits remembers for which requests there is room.
	fits     map[delegation.Request]bool
	accounts map[string]*usage
}

// usage is what an account has on a cluster, and each of its federations.
type usage struct {
	amount
	federations map[string]amount
}

// amount is how many jobs take how much.
type amount struct {
	jobs int
	delegation.Request
}

func (a amount) plus(r delegation.Request, n int) amount {
	return amount{a.jobs + n, a.Plus(r.Times(int64(n)))}
}

// dominant is the largest part that an amount is of a resource.
func (a amount) dominant(total delegation.Request) float64 {
	out := 0.0
	for _, of := range [][2]int64{{a.CPU, total.CPU}, {a.Memory, total.Memory}, {a.GPU, total.GPU}} {
		if of[1] > 0 {
			out = max(out, float64(of[0])/float64(of[1]))
		}
	}
	return out
}

// cluster gives the round's view of a cluster.
func (p *round) cluster(v *view.View, name string) *cluster {
	if c := p.clusters[name]; c != nil {
		return c
	}
	c := &cluster{name: name, promised: listOf(v.Jobs.Reserved.Get(name)), fits: map[delegation.Request]bool{}, accounts: map[string]*usage{}}
	c.capacity, c.open = v.Capacity(name)
	c.open = c.open && v.Alive(name)
	if rec := v.Nodes.Get(name).Capacity.Rec; rec != nil {
		c.total = totalOf(rec)
	}
	p.clusters[name] = c
	return c
}

// totalOf is what the nodes of a cluster have for pods.
func totalOf(c *record.Capacity) (out delegation.Request) {
	add := func(cpu record.NodeAmount, memory record.NodeMemory, gpu record.NodeAmount) {
		out = out.Plus(delegation.Request{CPU: cpu.Allocatable, Memory: memory.Allocatable, GPU: gpu.Allocatable}.Floor())
	}
	for _, n := range c.Nodes {
		add(n.CPU, n.Memory, n.GPU)
	}
	if r := c.Unlisted; r != nil {
		add(r.CPU, r.Memory, r.GPU)
	}
	return out
}

// room says whether one more job of a size fits beside what is promised.
func (c *cluster) room(r delegation.Request) bool {
	fits, known := c.fits[r]
	if !known {
		fits = c.open && c.capacity.Fits(promisesOf(c.promised), r)
		c.fits[r] = fits
	}
	return fits
}

// take enters one more job.
func (c *cluster) take(account, federation string, r delegation.Request) {
	c.promised = promise(c.promised, roomOf(r), 1)
	clear(c.fits)
	if u := c.accounts[account]; u != nil {
		u.amount = u.plus(r, 1)
		u.federations[federation] = u.federations[federation].plus(r, 1)
	}
}

// usage is what an account has there.
func (p *round) usage(v *view.View, c *cluster, account string) *usage {
	if u := c.accounts[account]; u != nil {
		return u
	}
	u := &usage{federations: map[string]amount{}}
	for held, n := range v.Jobs.Holds.Get(view.Holder{Cluster: c.name, Account: account}).All() {
		r := view.RequestOf(held.Takes)
		if f := v.Federations.Get(held.Federation).Rec; !held.Known && f != nil {
			if need := p.needs(f); need != nil {
				r = need.request // what the definition says now: the nearest there is
			}
		}
		u.federations[held.Federation] = u.federations[held.Federation].plus(r, n)
		u.amount = u.plus(r, n)
	}
	c.accounts[account] = u
	return u
}

// rankAt is the rank of a class whose first job goes to a cluster.
func (p *round) rankAt(v *view.View, h *head, c *cluster) rank {
	u := p.usage(v, c, h.account)
	of := u.federations[h.fed.UID]
	out := p.weighed(h, u.dominant(c.total), of.dominant(c.total))
	out.accountJobs, out.federationJobs = u.jobs, of.jobs
	if !h.takesNothing(c) {
		return out
	}
	free := p.rankOfFree(h)
	out.account, out.federation = max(out.account, free.account), max(out.federation, free.federation)
	return out
}

// takesNothing says whether the first job of a class takes no part of a cluster.
func (h *head) takesNothing(c *cluster) bool {
	return amount{Request: h.request}.dominant(c.total) == 0
}

// rankOfFree is the rank of a class whose first job takes no part of any cluster, as at an endpoint. What it takes is a place
// in the transaction: else all such jobs of an account would go before the first one of another that takes something.
func (p *round) rankOfFree(h *head) rank {
	n, of := p.free[sender{account: h.account}], p.free[sender{h.account, h.fed.UID}]
	out := p.weighed(h, float64(n)/assignAtOnce, float64(of)/assignAtOnce)
	out.accountJobs, out.federationJobs = n, of
	return out
}

// weighed is the rank of a class by the shares of its account and its federation.
func (p *round) weighed(h *head, account, federation float64) rank {
	return rank{
		account:    account / weight(p.weights.Accounts, h.account),
		federation: federation / weight(p.weights.Federations, h.fed.GroupID),
		first:      h.jobs.First(),
	}
}
