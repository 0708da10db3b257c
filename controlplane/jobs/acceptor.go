package jobs

import (
	"cmp"
	"context"
	"errors"

	"github.com/oscarfed/oscarfed/controlplane/fault"
	"github.com/oscarfed/oscarfed/controlplane/gate"
	"github.com/oscarfed/oscarfed/controlplane/request"
	"github.com/oscarfed/oscarfed/controlplane/view"
	"github.com/oscarfed/oscarfed/store"
	"github.com/oscarfed/oscarfed/store/record"
)

const (
	// acceptAtOnce and acceptBytes bound the jobs, and their sealed events, that one
	// transaction accepts.
	acceptAtOnce = 40
	acceptBytes  = 1 << 20
	// acceptQueue is how many submissions may wait for their transaction.
	acceptQueue = 1000
)

// submission is one job that is to be accepted.
type submission struct {
	job   record.Job
	event record.Event
	// body is the event itself.
	body  []byte
	claim request.Claim
	// fedRev is the revision of the federation that it was checked against, and admits
	// checks another revision.
	fedRev int64
	admits func(*record.Federation) error
	// done is closed when id or err is set. A repeated request has the id of its first job.
	done chan struct{}
	id   string
	err  error
}

// acceptor stores submissions, many in one transaction: submissions that arrive during a
// transaction go into the next one.
type acceptor struct{ queue chan *submission }

func newAcceptor() *acceptor { return &acceptor{queue: make(chan *submission, acceptQueue)} }

// submit waits until a submission is stored or refused. When ctx ends before, the outcome is
// unknown. The id beside an error is what is known of it.
func (a *acceptor) submit(ctx context.Context, s *submission) (string, error) {
	select {
	case a.queue <- s:
	case <-ctx.Done():
		return "", context.Cause(ctx)
	}
	select {
	case <-s.done:
		return s.id, s.err
	case <-ctx.Done():
		return "", errors.Join(store.ErrUnknownOutcome, context.Cause(ctx))
	}
}

// acceptJobs stores submissions until ctx ends.
func (c *Controller) acceptJobs(ctx context.Context) error {
	var held *submission
	for {
		batch, bytes := []*submission{}, 0
		if held == nil {
			select {
			case held = <-c.acceptor.queue:
			case <-ctx.Done():
				c.refuseWaiting(ctx)
				return ctx.Err()
			}
		}
		for held != nil {
			batch = append(batch, held)
			bytes += len(held.event.Sealed)
			held = nil
			select {
			case held = <-c.acceptor.queue:
			default:
			}
			if held != nil && (len(batch) == acceptAtOnce || bytes+len(held.event.Sealed) > acceptBytes) {
				break
			}
		}
		c.acceptBatch(ctx, batch)
	}
}

// refuseWaiting answers the waiting submissions with an error: this instance stops, and stored
// none of them.
func (c *Controller) refuseWaiting(ctx context.Context) {
	for {
		select {
		case s := <-c.acceptor.queue:
			s.err = errors.Join(store.ErrUnavailable, context.Cause(ctx))
			close(s.done)
		default:
			return
		}
	}
}

// acceptBatch stores jobs with their events in one transaction. It leaves out refused jobs.
func (c *Controller) acceptBatch(ctx context.Context, batch []*submission) {
	epoch, loads := c.loadsOf(batch)
	keys := []string{record.MetaKey}
	for _, s := range batch {
		s.job.Epoch = epoch
		keys = append(append(keys, record.JobKey(s.job.Job), record.FederationKey(s.job.Federation)), s.claim.Keys()...)
	}
	for _, s := range batch {
		c.dispatcher.events.Put(s.job.Job, s.body, len(s.body)+eventCost) // it may be assigned before this is told that it is stored
	}
	c.gate.Fail("before_job_accept")
	res, err := c.store.Update(ctx, store.Update{
		// Requests are not mirrored, and so taken for absent.
		Keys: keys, From: c.state.Mirror.Snapshot().Guess(keys...),
		Build: func(v store.View, tx *store.Txn) error {
			if err := gate.SameEpoch(v, tx, epoch); err != nil {
				return err
			}
			more, first := newInFlight(), map[string]*submission{}
			for _, s := range batch {
				if s.id, s.err = "", nil; c.judge(v, s, first) {
					c.acceptOne(tx, s, loads[s], more, first)
				}
			}
			return nil
		},
	})
	if err == nil {
		c.gate.Fail("after_job_accept")
		err = c.gate.Shows(ctx, res.Revision)
	}
	for _, s := range batch {
		c.answer(s, err)
	}
}

// inFlight counts unfinished jobs.
type inFlight struct{ of map[sender]int }

// sender is an account in a federation. With one of both empty it is the whole account, or the whole
// federation.
type sender struct{ account, federation string }

func newInFlight() inFlight { return inFlight{of: map[sender]int{}} }

// counts are those that a job counts in.
func counts(j *record.Job) [3]sender {
	account := view.AccountOf(j)
	return [3]sender{{"", j.Federation}, {account, ""}, {account, j.Federation}}
}

// add counts one more job.
func (n inFlight) add(j *record.Job) {
	for _, s := range counts(j) {
		n.of[s]++
	}
}

// load is what is in flight of the federation of a job, of its account, and of its account in this federation.
type load struct{ federation, account, own int }

// with is a load with the jobs that are counted besides.
func (n inFlight) with(l load, j *record.Job) load {
	of := counts(j)
	return load{l.federation + n.of[of[0]], l.account + n.of[of[1]], l.own + n.of[of[2]]}
}

// loadOf is what the state has in flight beside a job.
func loadOf(v *view.View, j *record.Job) load {
	account := view.AccountOf(j)
	return load{v.Jobs.InFlight.Get(j.Federation), v.Jobs.Users.Get(account), v.Jobs.Senders.Get(account).Get(j.Federation)}
}

// loadsOf are what the state has in flight beside the jobs of a batch. It tells its epoch.
func (c *Controller) loadsOf(batch []*submission) (epoch string, loads map[*submission]load) {
	loads = map[*submission]load{}
	c.state.Read(func(v *view.View) {
		epoch = v.Epoch()
		for _, s := range batch {
			loads[s] = loadOf(v, &s.job)
		}
	})
	return epoch, loads
}

// acceptOne writes a submission, unless its federation or account has too many jobs in flight, with those
// that are accepted beside it. It counts it, and keeps it as the first of its request.
func (c *Controller) acceptOne(tx *store.Txn, s *submission, has load, more inFlight, first map[string]*submission) {
	j := &s.job
	s.err = cmp.Or(c.requests.MayKeep(s.claim), c.refusedFor(j, more.with(has, j)))
	if s.err != nil {
		if s.claim.Hash != "" {
			tx.Expect(record.RequestKey(s.claim.Hash)) // a repeated one is answered, not refused
		}
		return
	}
	more.add(j)
	if s.claim.Hash != "" {
		first[s.claim.Hash] = s
	}
	s.id = j.Job
	tx.Expect(record.FederationKey(j.Federation))
	tx.Expect(record.JobKey(j.Job))
	tx.Put(record.JobKey(j.Job), j)
	tx.Put(record.EventKey(j.Job), s.event)
	s.claim.Write(tx, j.Job, j.AcceptedAt, nil)
}

// answer ends a submission. err is that of the transaction.
func (c *Controller) answer(s *submission, err error) {
	if s.err == nil {
		s.err = err
	}
	if errors.Is(s.err, gate.ErrFence) {
		s.err = &fault.Error{Code: fault.CodeUnavailable, Message: "the store was restored; try again in a moment", RetryAfter: retryJobs}
	}
	if s.id != s.job.Job {
		c.dispatcher.events.Take(s.job.Job)
	}
	close(s.done)
}

// judge says whether to store a submission. It sets the submission's id or err when it was stored
// already, when the same request has made another job, or when it is refused.
func (c *Controller) judge(v store.View, s *submission, batch map[string]*submission) bool {
	if _, ours := v.KV(record.JobKey(s.job.Job)); ours {
		s.id = s.job.Job // by a try whose answer was lost
		return false
	}
	if s.id, s.err = c.sameRequest(v, s.claim); s.id != "" || s.err != nil {
		return false
	}
	if other := batch[s.claim.Hash]; s.claim.Hash != "" && other != nil {
		if s.id = other.job.Job; other.claim.BodyHash != s.claim.BodyHash {
			s.id, s.err = "", request.KeyReused()
		}
		return false
	}
	kv, ok := v.KV(record.FederationKey(s.job.Federation))
	if !ok {
		s.err = fault.NotFound("the service was deleted meanwhile")
		return false
	}
	if kv.ModRevision != s.fedRev {
		f, err := store.Decode[record.Federation](kv)
		if err == nil {
			err = s.admits(f)
		}
		s.err = err
	}
	return s.err == nil
}
