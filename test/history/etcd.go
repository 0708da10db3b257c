package history

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc"

	"github.com/oscarfed/oscarfed/controlplane"
	"github.com/oscarfed/oscarfed/store"
	"github.com/oscarfed/oscarfed/store/access"
	"github.com/oscarfed/oscarfed/store/embedded"
	"github.com/oscarfed/oscarfed/test/world"
)

// Faults of etcd itself.
const (
	faultLeaderless = "no leader of"
	faultFull       = "fill the database of"
)

const (
	// smallQuota is that of an etcd that is to be filled: one that takes a moment to fill.
	smallQuota = 16 << 20
	// shortRetention is the history that is kept there.
	shortRetention = 10 * time.Minute
	// foreignPrefix is of the records that fill etcd.
	foreignPrefix = "/foreign/"
	foreignSize   = 512 << 10
	// sizeKnown is longer than etcd takes to write to its file, and so to know its size.
	sizeKnown = 150 * time.Millisecond
	// etcdTimeout is how long one request to etcd may take.
	etcdTimeout = 5 * time.Second
)

// drawEtcd draws what happens to etcd itself, for some of the plans.
func (d *drawer) drawEtcd(rng *rand.Rand) {
	at := func(f Fault) {
		f.On = world.HostEtcd
		d.plan.Steps = append(d.plan.Steps, Step{At: time.Duration(rng.Int64N(int64(d.length))), Fault: &f})
	}
	if rng.IntN(4) == 0 {
		at(Fault{Kind: faultLeaderless, For: time.Second + time.Duration(rng.ExpFloat64()*float64(30*time.Second))})
	}
	if rng.IntN(8) == 0 {
		// The first amounts leave etcd short of space, the last one is more than it takes.
		at(Fault{Kind: faultFull, Count: pick(rng, 11, 14, 20, 20), For: time.Second + time.Duration(rng.ExpFloat64()*float64(time.Minute))})
	}
}

// fills says whether a plan fills etcd.
func (p Plan) fills() bool {
	return slices.ContainsFunc(p.Steps, func(s Step) bool { return s.Fault != nil && s.Fault.Kind == faultFull })
}

// quota gives etcd a small quota when the plan fills it.
func (p *player) quota(c *embedded.Config) {
	if p.plan.fills() {
		c.Quota = smallQuota
	}
}

// retention lets control planes give history up that is old: of a database that is merely short of space
// they keep what was promised, and what filled it is in there for so long.
func (p *player) retention(c *controlplane.Config) {
	if p.plan.fills() {
		c.EtcdRetention = shortRetention
	}
}

// leaderless keeps etcd without a leader.
func (p *player) leaderless(ctx context.Context, f Fault) (mend func()) {
	if !p.take(f.On) {
		return nil
	}
	ctx, cancel := context.WithCancel(ctx)
	over := make(chan struct{})
	go func() {
		defer close(over)
		p.w.Leaderless(ctx, f.For)
	}()
	return func() {
		cancel()
		<-over
		p.give(f.On)
	}
}

// fill writes foreign records until there are as many MiB as the fault says, or until etcd is full.
func (p *player) fill(ctx context.Context, f Fault) (mend func()) {
	etcd, err := store.Dial(p.w.As(access.Root))
	if err != nil {
		p.t.Error(err)
		return nil
	}
	value := string(bytes.Repeat([]byte("x"), foreignSize))
	for i := range f.Count << 20 / foreignSize {
		ctx, cancel := context.WithTimeout(ctx, etcdTimeout)
		_, err := etcd.Put(ctx, fmt.Sprintf("%s%04d", foreignPrefix, i), value)
		cancel()
		if err != nil { // it is full, or away
			break
		}
		<-time.After(sizeKnown)
	}
	return func() {
		for ctx.Err() == nil {
			ctx, cancel := context.WithTimeout(ctx, etcdTimeout)
			_, err := etcd.Delete(ctx, foreignPrefix, clientv3.WithPrefix())
			cancel()
			if err == nil {
				break
			}
		}
		_ = etcd.Close()
	}
}

// compact makes etcd forget all revisions so far. While etcd is away it does not.
func (p *player) compact(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, etcdTimeout)
	defer cancel()
	revision, err := p.check(ctx)
	if err != nil {
		return
	}
	etcd, err := store.Dial(p.w.As(access.Root))
	if err != nil {
		p.t.Error(err)
		return
	}
	_, _ = etcd.Compact(ctx, revision)
	_ = etcd.Close()
}

// check checks the promises at all revisions so far, and gives the last of them.
func (p *player) check(ctx context.Context) (revision int64, err error) {
	select {
	case p.checking <- struct{}{}:
	case <-ctx.Done():
		return 0, ctx.Err()
	}
	defer func() { <-p.checking }()
	if err := p.canaries.hide(p.replay, false); err != nil {
		return 0, err
	}
	return p.replay.Advance(ctx, p.w.Store)
}

// checkFirst checks the promises before a control plane compacts etcd to make space.
func (p *player) checkFirst(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
	if method == "/etcdserverpb.KV/Compact" {
		if _, err := p.check(ctx); err != nil {
			return err
		}
	}
	return invoke(ctx, method, req, reply, cc, opts...)
}
