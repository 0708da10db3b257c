package jobs

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"go.opentelemetry.io/otel/attribute"

	"github.com/oscarfed/oscarfed/controlplane/gate"
	"github.com/oscarfed/oscarfed/controlplane/request"
	"github.com/oscarfed/oscarfed/controlplane/view"
	"github.com/oscarfed/oscarfed/store"
	"github.com/oscarfed/oscarfed/store/record"
	"github.com/oscarfed/oscarfed/store/seal"
)

// maxJobSteps is how many jobs one transaction changes at most. Where they are on many
// clusters, or their events are large, it changes fewer.
const maxJobSteps = 40

// step is one job's part of a transaction, with the input of its decision.
type step struct {
	name string
	// rev is that of the job's record, and was what it held.
	rev  int64
	was  record.Job
	next record.Job
	// watch are further keys that must be as they were, by their mod revisions.
	watch map[string]int64
	// put and remove are the other records that it writes and deletes.
	put    []gate.Staged
	remove []string
	// silent says that the job's record is compared and not written.
	silent bool
	// event is the key of an event to take over, and reseal the recipient that the job's
	// event is to be sealed to; see completeSteps.
	event  string
	reseal seal.Recipient
	// posted is when OSCAR was asked for the attempt, once; nil at other steps.
	posted *time.Time
	// audit is the entry of a person's order, and claim its request; nil and zero for any other step.
	audit *record.Audit
	claim request.Claim
	// base is the reserved capacity of the cluster at the time of the choice; nil when the step
	// does not assign.
	base []record.Promise
}

func (p *step) id() string { return p.next.Job }

// stands says whether the records that the step was decided on are unchanged.
func (p *step) stands(v store.View) bool {
	if kv, _ := v.KV(record.JobKey(p.id())); kv.ModRevision != p.rev {
		return false
	}
	for key, rev := range p.watch {
		if kv, _ := v.KV(key); kv.ModRevision != rev {
			return false
		}
	}
	return true
}

// commitJobs writes the steps that still stand, in as few transactions as they fit into, and
// returns those, also beside an error. It leaves out a step whose job has changed, without
// an error: the job is queued again.
func (c *Controller) commitJobs(ctx context.Context, steps []*step) (done []*step, err error) {
	err = gate.InParts(steps, func(some []*step) error {
		more, err := c.commitTogether(ctx, some)
		done = append(done, more...)
		return err
	})
	return done, err
}

// commitTogether is one transaction of commitJobs.
func (c *Controller) commitTogether(ctx context.Context, steps []*step) ([]*step, error) {
	if len(steps) == 0 {
		return nil, nil
	}
	keys := []string{record.MetaKey}
	for _, p := range steps {
		keys = append(append(keys, record.JobKey(p.id())), p.claim.Keys()...)
		for key := range p.watch {
			keys = append(keys, key)
		}
		for _, cluster := range p.reservedOn() {
			keys = append(keys, record.ReservedKey(cluster))
		}
	}
	slices.Sort(keys)
	keys = slices.Compact(keys)
	var epoch string
	c.state.Read(func(v *view.View) { epoch = v.Epoch() })
	for _, p := range names(steps) {
		c.gate.Fail("before_" + p)
	}
	var done []*step
	began := c.cfg.Now()
	res, err := c.store.Update(ctx, store.Update{
		Keys: keys, From: c.state.Mirror.Snapshot().Guess(keys...),
		Build: func(v store.View, tx *store.Txn) error {
			done = nil
			if err := gate.SameEpoch(v, tx, epoch); err != nil {
				return err
			}
			reserved := newReservations(v)
			for _, p := range steps {
				if !p.stands(v) || !reserved.take(p) {
					continue
				}
				tx.Expect(record.JobKey(p.id()))
				if err := c.requests.Free(p.claim, v); err != nil {
					return err
				}
				p.claim.Write(tx, p.id(), p.next.ChangedAt, nil)
				for key := range p.watch {
					tx.Expect(key)
				}
				p.write(tx)
				if p.audit != nil {
					request.Note(tx, c.cfg.Now(), *p.audit)
				}
				done = append(done, p)
			}
			reserved.write(tx)
			return nil
		},
	})
	if err != nil {
		return nil, err
	}
	for _, p := range names(done) {
		c.gate.Fail("after_" + p)
	}
	for _, p := range done {
		c.metrics.noted(p, c.cfg.Now())
		c.cfg.Tracer.Past(p.next.RequestID, "job "+p.name, began, attribute.String("job", p.id()), attribute.Int64("etcd.revision", res.Revision))
		c.cfg.Logger.Debug("job step", "job", p.id(), "step", p.name, "state", p.next.State, "attempt", p.next.Attempt,
			"revision", res.Revision, "request_id", p.next.RequestID)
	}
	return done, c.gate.Shows(ctx, res.Revision)
}

// names lists the different names of steps.
func names(steps []*step) []string {
	var out []string
	for _, p := range steps {
		if name := "job_" + p.name; !slices.Contains(out, name) {
			out = append(out, name)
		}
	}
	return out
}

func (p *step) write(tx *store.Txn) {
	if !p.silent {
		tx.Put(record.JobKey(p.id()), p.next)
		tx.Touch(record.JobKey(p.id()))
	}
	for _, s := range p.put {
		tx.Put(s.Key, s.Rec)
	}
	for _, key := range p.remove {
		tx.Delete(key)
	}
}

// reservedOn lists the clusters whose promises the step changes.
func (p *step) reservedOn() []string {
	var out []string
	if p.was.Reserved != nil {
		out = append(out, p.was.Place.ClusterID)
	}
	if p.next.Reserved != nil && !slices.Contains(out, p.next.Place.ClusterID) {
		out = append(out, p.next.Place.ClusterID)
	}
	return out
}

// reservations are the records of promised capacity, while a transaction is built.
type reservations struct {
	view store.View
	of   map[string]*record.Reserved
	// before is their content. An unreadable record counts as empty and is written anew.
	before map[string][]record.Promise
}

func newReservations(v store.View) *reservations {
	return &reservations{view: v, of: map[string]*record.Reserved{}, before: map[string][]record.Promise{}}
}

func (r *reservations) open(cluster string) *record.Reserved {
	if rec := r.of[cluster]; rec != nil {
		return rec
	}
	rec := &record.Reserved{V: record.Version}
	if kv, ok := r.view.KV(record.ReservedKey(cluster)); ok {
		if was, err := store.Decode[record.Reserved](kv); err == nil {
			rec = was
		}
	}
	r.before[cluster] = slices.Clone(rec.Jobs)
	r.of[cluster] = rec
	return rec
}

// take applies the reservations that a step frees and makes. It returns false when the cluster
// has promised more than when the choice was made.
func (r *reservations) take(p *step) bool {
	if p.next.Reserved != nil && p.was.Reserved == nil {
		r.open(p.next.Place.ClusterID)
		if !within(r.before[p.next.Place.ClusterID], p.base) {
			return false
		}
	}
	if p.was.Reserved != nil {
		rec := r.open(p.was.Place.ClusterID)
		rec.Jobs = promise(rec.Jobs, *p.was.Reserved, -1)
	}
	if p.next.Reserved != nil {
		rec := r.open(p.next.Place.ClusterID)
		rec.Jobs = promise(rec.Jobs, *p.next.Reserved, 1)
	}
	return true
}

func (r *reservations) write(tx *store.Txn) {
	for cluster, rec := range r.of {
		key := record.ReservedKey(cluster)
		if slices.Equal(rec.Jobs, r.before[cluster]) {
			continue
		}
		tx.Expect(key)
		if len(rec.Jobs) == 0 {
			tx.Delete(key)
			continue
		}
		tx.Put(key, rec)
	}
}

// promise adds a number of pods of one size to a list, which it does not change, or
// takes them off. Sizes are in a fixed order, so that equal lists are equal bytes.
func promise(list []record.Promise, room record.Room, count int64) []record.Promise {
	out := slices.Clone(list)
	at, there := slices.BinarySearchFunc(out, room, func(p record.Promise, r record.Room) int {
		return cmp.Or(cmp.Compare(p.GPUs, r.GPUs), cmp.Compare(p.Millicores, r.Millicores), cmp.Compare(p.Bytes, r.Bytes))
	})
	switch {
	case there:
		if out[at].Count += count; out[at].Count <= 0 {
			out = slices.Delete(out, at, at+1)
		}
	case count > 0:
		out = slices.Insert(out, at, record.Promise{Room: room, Count: count})
	}
	return out
}

// within says whether no size is promised more often in a list than in another.
func within(list, base []record.Promise) bool {
	return !slices.ContainsFunc(list, func(p record.Promise) bool {
		return !slices.ContainsFunc(base, func(b record.Promise) bool { return b.Room == p.Room && b.Count >= p.Count })
	})
}

// checkReserved compares the reservations with the jobs, and returns the right ones for the
// clusters where they differ.
func checkReserved(v *view.View) (should map[string][]record.Promise) {
	sums := map[string][]record.Promise{}
	for cluster := range v.Jobs.ByCluster.Keys() {
		for id := range v.Jobs.ByCluster.Of(cluster).IDs() {
			if j := v.Jobs.ByID.Get(id).Rec; j.Reserved != nil {
				sums[j.Place.ClusterID] = promise(sums[j.Place.ClusterID], *j.Reserved, 1)
			}
		}
	}
	should = map[string][]record.Promise{}
	for cluster, rec := range v.Jobs.Reserved.All() {
		if !slices.Equal(rec.Rec.Jobs, sums[cluster]) {
			should[cluster] = sums[cluster]
		}
	}
	for cluster, sum := range sums {
		if _, ok := v.Jobs.Reserved.Lookup(cluster); !ok {
			should[cluster] = sum
		}
	}
	return should
}

// describePromises formats promises for a log.
func describePromises(list []record.Promise) string {
	var out []string
	for _, p := range list {
		out = append(out, fmt.Sprintf("%d x cpu %dm memory %d gpu %d", p.Count, p.Millicores, p.Bytes, p.GPUs))
	}
	return cmp.Or(strings.Join(out, "; "), "nothing")
}
