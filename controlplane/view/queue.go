package view

import (
	"strings"

	"github.com/oscarfed/oscarfed/store/record"
)

// Class has what decides, of a queued job, which members may take it: those of one class wait
// for the same capacity.
type Class struct {
	// Cluster and Service received it.
	Cluster, Service string
	// Epoch is the record's, and BucketEvent, too.
	Epoch       string
	BucketEvent bool
	// Refused are the places that it is kept from, in one string, and Tries is how often it was refused.
	Refused string
	Tries   int
	// Of a job that is to be handed over: from where, how often it was before, and the clusters that it
	// is kept from.
	From, Visited string
	Hops          int
}

// ClassOf is the class of a job.
func ClassOf(j *record.Job) Class {
	out := Class{Cluster: j.Cluster, Service: j.Service, Epoch: j.Epoch, BucketEvent: j.BucketEvent, Refused: strings.Join(j.RefusedAt(), "\x00"), Tries: j.Tries}
	if j.Frozen != nil {
		out.From, out.Hops, out.Visited = j.Frozen.Where(), j.Hops, strings.Join(j.Visited, "\x00")
	}
	return out
}

// Queue has the queued jobs of one account in one federation: of each class those that wait, in
// the order of acceptance.
type Queue = Table[Class, List]

// enqueue adds a job to the queue of its account, or removes it.
func (x *jobIndex) enqueue(j *record.Job, there bool) {
	account, class := AccountOf(j), ClassOf(j)
	queue := x.Queued.m[j.Federation].m[account].m
	if there {
		if queue == nil {
			if x.Queued.m[j.Federation].m == nil {
				x.Queued.m[j.Federation] = tableOf(map[string]Queue{})
			}
			queue = map[Class]List{}
			x.Queued.m[j.Federation].m[account] = tableOf(queue)
		}
		queue[class] = queue[class].with(PositionOf(j))
		return
	}
	if left := queue[class].without(PositionOf(j)); !left.Empty() {
		queue[class] = left
		return
	}
	delete(queue, class)
	if len(queue) > 0 {
		return
	}
	delete(x.Queued.m[j.Federation].m, account)
	if len(x.Queued.m[j.Federation].m) == 0 {
		delete(x.Queued.m, j.Federation)
	}
}

// Holder is an account at a cluster.
type Holder struct{ Cluster, Account string }

// Held are jobs of a federation at a cluster that take the same of it; nothing is known of what those take that are not Known.
type Held struct {
	Federation string
	Takes      record.Room
	Known      bool
}

func heldOf(j *record.Job) Held {
	if j.Place.Takes == nil {
		return Held{Federation: j.Federation}
	}
	return Held{j.Federation, *j.Place.Takes, true}
}
