package history

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net"
	"sync/atomic"
	"syscall"
	"time"

	v1 "github.com/oscarfed/oscarfed/api/v1"
	"github.com/oscarfed/oscarfed/store/record"
	"github.com/oscarfed/oscarfed/syncer"
	"github.com/oscarfed/oscarfed/syncer/manager"
)

// Trials of clocks that are wrong, or stand.

func (t *trial) planeClock() error {
	mend := t.player.wrongClock(Fault{On: hostControlPlane(t.Plane), Amount: t.Ahead})
	defer mend()
	<-time.After(sessionOver)
	return t.create(trialLate, nil)
}

// syncerClock has OSCAR away, too, whenever it is asked to make the service, for less than the deadline of the
// creation: its syncer does not tell that by its clock.
func (t *trial) syncerClock() error {
	clock := t.player.clocks[t.cluster.Host()]
	t.cluster.Kill()
	clock.Advance(t.Ahead)
	t.cluster.Start(func(c *syncer.Config) {
		closed := &closedToCreates{OSCAR: c.OSCAR}
		closed.refusals.Store(refusedCreates)
		c.OSCAR = closed
	})
	<-time.After(sessionOver)
	err := t.create(trialLate, nil)
	t.cluster.Kill()
	clock.Advance(-t.Ahead)
	t.cluster.Start()
	return err
}

// refusedCreates are more than a syncer sends before it tells of a failure, and fewer than it sends until the
// deadline.
const refusedCreates = 4

// closed has OSCAR refuse the connections of all creates: the refusal says so.
func (t *trial) closed() error {
	t.cluster.Kill()
	t.cluster.Start(func(c *syncer.Config) {
		closed := &closedToCreates{OSCAR: c.OSCAR}
		closed.refusals.Store(math.MaxInt64)
		c.OSCAR = closed
	})
	<-time.After(sessionOver)
	err := refused(t.create(trialLate, nil), v1.CodeReplicaFailed)
	err = errors.Join(err, t.refusedFor(record.ReasonOscarUnreachable))
	t.cluster.Kill()
	t.cluster.Start()
	return errors.Join(err, t.nowhere())
}

// closedToCreates is an OSCAR that refuses the connections of the first creates.
type closedToCreates struct {
	syncer.OSCAR
	refusals atomic.Int64
}

// Create implements syncer.OSCAR.
func (o *closedToCreates) Create(ctx context.Context, name string, body []byte, as manager.Bearer, timeout time.Duration) error {
	if o.refusals.Add(-1) >= 0 {
		return &manager.APIError{Op: manager.OpCreate, Service: name, Err: &net.OpError{Op: "dial", Err: syscall.ECONNREFUSED}}
	}
	return o.OSCAR.Create(ctx, name, body, as, timeout)
}

// coarseClock lets the clock of a syncer stand while much is done: what OSCAR has answered before a write is not
// taken for what it answers after it.
func (t *trial) coarseClock() error {
	of := t.player.clocks[hostSyncer(0)] // only a coordinator has buckets
	of.Coarse(coarse)
	defer of.Coarse(0)
	var all error
	for i := range coarseCreations {
		<-time.After(coarse / coarseCreations)
		one := *t
		one.name = fmt.Sprintf("%s-%d", t.name, i)
		all = errors.Join(all, one.create(trialLate, nil))
	}
	return all
}

const (
	// coarse is a step of such a clock, and coarseCreations how many creations begin within different parts of one.
	coarse          = 500 * time.Millisecond
	coarseCreations = 4
)
