package guard

import (
	"math"
	"time"
)

// Limits of one untrusted user. An honest syncer is far from each.
type Limits struct {
	// Ops of one transaction: comparisons and operations of both branches, those of
	// nested transactions included. etcd takes 128 of each.
	Ops int
	// Answer in bytes: what one answer that is no stream holds at most.
	Answer int
	// Bytes of answers that are built or not sent yet, of one user, and Total of all
	// users. A user whose answers hold less than a megabyte passes by Total.
	Bytes, Total int64
	// Requests under way, Arriving of them whose body is not there yet, and Streams
	// among them.
	Requests, Arriving, Streams int
	// Watches of one user, whatever streams they are on.
	Watches int
	// Messages per second on streams: watches that are opened and closed, requests for
	// progress, renewals of leases. Five times as many at once. More have to wait.
	Messages float64
	// Connections of one user.
	Connections int
}

// defaultLimits are far from what a syncer with 20,000 services asks when it begins anew,
// and one that posts 256 jobs at a time.
func defaultLimits() Limits {
	return Limits{
		Ops: 384, Answer: 8 << 20, Bytes: 64 << 20, Total: 512 << 20,
		Requests: 512, Arriving: 64, Streams: 64, Watches: 64, Messages: 200, Connections: 64,
	}
}

// What an answer may cost that is not known before it is built.
const (
	// maxValue is the most bytes of one key with its value: etcd's limit of a request.
	maxValue = 3 << 19
	// keysOfLease is what the keys of a lease are taken to have: as much as a user may have built at
	// all. A cluster may have all of its keys end with one.
	keysOfLease = math.MaxInt64
	// readsAtOnce are the values of one transaction that etcd reads before any is sent.
	readsAtOnce = 8
	// valuesAtOnce are the values of a range that etcd reads at once. A stream of
	// etcd begins with ten and doubles, whatever comes next: it is begun anew after these.
	valuesAtOnce = 30
	// listsAtOnce are the ranges of one user that are read at once.
	listsAtOnce = 2
)

// stalled is how long a connection may take nothing of what waits for it.
const stalled = time.Minute
