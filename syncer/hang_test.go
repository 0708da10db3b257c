package syncer_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/oscarfed/oscarfed/internal/oscarsim"
	"github.com/oscarfed/oscarfed/store/record"
	"github.com/oscarfed/oscarfed/syncer"
	"github.com/oscarfed/oscarfed/syncer/manager"
	"github.com/oscarfed/oscarfed/test/await"
)

// TestOneHangingAnswerHoldsUpNoOtherWork: OSCAR tells everything but what some services alone need, and there are as
// many of these as are decided upon at the same time.
func TestOneHangingAnswerHoldsUpNoOtherWork(t *testing.T) {
	hang := func(ctx context.Context) error { <-ctx.Done(); return context.Cause(ctx) }
	for _, tc := range []struct {
		name    string
		hangs   func(*proxy)
		waits   func(*rig, *replica)
		exposed bool
	}{
		{"a vote needs the version", func(p *proxy) {
			p.info = func(ctx context.Context) (manager.Info, error) { return manager.Info{}, hang(ctx) }
		}, func(r *rig, p *replica) { r.want(p, record.IntentPrepare) }, false},
		{"one that is to be stopped needs its state", func(p *proxy) {
			p.state = func(ctx context.Context, _ string) (string, error) { return "", hang(ctx) }
		}, func(r *rig, p *replica) {
			r.want(p, record.IntentApply, func(d *record.Desired) { d.RunState = record.RunStopped })
		}, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			await.InVirtualTime(t, func(t *testing.T) {
				r := newRig(t, oscarsim.Config{})
				stop := r.start()
				var waiting []*replica
				for i := range 8 {
					p := newReplica(fmt.Sprintf("waiting%d", i))
					if tc.exposed {
						p.extra = map[string]any{"expose": map[string]any{"api_port": []int{80}}}
						r.makeReady(p)
					}
					waiting = append(waiting, p)
				}
				other := newReplica("other")
				r.makeReady(other)
				stop()

				hanging := &proxy{OSCAR: r.oscar("syncer")}
				tc.hangs(hanging)
				r.start(func(c *syncer.Config) { c.OSCAR = hanging })
				for _, p := range waiting {
					tc.waits(r, p)
				}
				<-time.After(10 * time.Second) // all are looked at
				other.image, other.generation = "example.org/newer", 2
				r.want(other, record.IntentApply)
				r.await(other, record.PhaseReady)
				r.inPlace(other)
			})
		})
	}
}
