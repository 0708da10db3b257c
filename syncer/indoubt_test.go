package syncer_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/oscarfed/oscarfed/internal/oscarsim"
	"github.com/oscarfed/oscarfed/store/record"
	"github.com/oscarfed/oscarfed/syncer"
	"github.com/oscarfed/oscarfed/syncer/manager"
	"github.com/oscarfed/oscarfed/syncer/services"
	"github.com/oscarfed/oscarfed/test/await"
	"github.com/oscarfed/oscarfed/test/world"
)

// startOn runs a syncer on a host and a disk. kill ends it as SIGKILL does, and gives the disk as the next one finds it.
func (r *rig) startOn(host string, disk *world.Disk, change ...func(*syncer.Config)) (kill func() *world.Disk) {
	r.t.Helper()
	cfg := r.config(host)
	cfg.InDoubt = disk
	for _, c := range change {
		c(&cfg)
	}
	task := world.Go(context.WithoutCancel(r.t.Context()), world.Must(syncer.New(cfg))(r.t).Run)
	killed := false
	kill = func() *world.Disk {
		killed = true
		next := disk.Successor()
		r.net.Host(host).Kill()
		_ = task.Stop() // it is dead
		return next
	}
	r.t.Cleanup(func() {
		if !killed {
			kill()
		}
	})
	return kill
}

// worksLong has OSCAR work long on a syncer's first POST, whose answer does not come.
func (r *rig) worksLong(c *syncer.Config) {
	r.lateCreate()
	inner, late := c.OSCAR, false
	c.OSCAR = &proxy{OSCAR: inner, create: func(ctx context.Context, name string, body []byte, as manager.Bearer, timeout time.Duration) error {
		err := inner.Create(ctx, name, body, as, timeout)
		if late {
			return err
		}
		late = true
		if err == nil {
			r.t.Error("the POST was answered")
		}
		<-ctx.Done()
		return &manager.APIError{Op: manager.OpCreate, Service: name, Err: ctx.Err()}
	}}
}

// ordered are creations that are ordered together. It waits until OSCAR works on the POST of one of them.
func (r *rig) ordered(names ...string) (first *replica, others []*replica) {
	r.t.Helper()
	all := make([]*replica, 0, len(names))
	for _, name := range names {
		p := newReplica(name)
		r.want(p, record.IntentPrepare)
		r.await(p, record.PhasePrepared)
		all = append(all, p)
	}
	asked := r.sim.Next(oscarsim.OpCreate)
	r.wantTogether(all, record.IntentApply)
	<-asked
	for _, p := range all {
		if len(r.calls(p.name)) > 0 {
			first = p
			continue
		}
		others = append(others, p)
	}
	return first, others
}

// rollBack orders the end of creations, and says how long after it each was acknowledged.
func (r *rig) rollBack(all ...*replica) (took map[string]time.Duration) {
	r.t.Helper()
	began, took := time.Now(), map[string]time.Duration{}
	r.wantTogether(all, record.IntentDelete)
	for _, p := range all {
		r.await(p, record.PhaseDeleted)
		took[p.name] = time.Since(began)
	}
	return took
}

// TestAKilledSyncerHoldsUpWhatItWroteAlone: the POST that OSCAR works on as the syncer is killed may take effect late, and
// those that had not been sent cannot.
func TestAKilledSyncerHoldsUpWhatItWroteAlone(t *testing.T) {
	const late = 300 * time.Second
	for name, c := range map[string]struct {
		// next gives the disk of the syncer that follows.
		next func(r *rig, left *world.Disk) *world.Disk
		// waits says that all deletions wait.
		waits bool
	}{
		"its list is there": {next: func(_ *rig, left *world.Disk) *world.Disk { return left }},
		"a second one is killed": {next: func(r *rig, left *world.Disk) *world.Disk {
			kill := r.startOn("second", left)
			r.eventually("it is connected", func() bool { return r.sessionRevision() > 0 })
			return kill()
		}},
		"the disk is lost": {waits: true, next: func(*rig, *world.Disk) *world.Disk { return &world.Disk{} }},
		"the list cannot be read": {waits: true, next: func(*rig, *world.Disk) *world.Disk {
			broken := &world.Disk{}
			_ = broken.Save([]byte("{"))
			return broken
		}},
		"another one wrote meanwhile": {waits: true, next: func(r *rig, left *world.Disk) *world.Disk {
			kill := r.startOn("second", &world.Disk{})
			<-r.sim.Next(oscarsim.OpCreate)
			kill()
			return left
		}},
	} {
		t.Run(name, func(t *testing.T) {
			await.InVirtualTime(t, func(t *testing.T) {
				r := newRig(t, oscarsim.Config{Latency: 10 * time.Second})
				kill := r.startOn("first", &world.Disk{}, r.worksLong)
				r.eventually("it has reported", func() bool { return r.cluster() != nil && r.cluster().InDoubt != "" })
				posted, others := r.ordered("one", "two", "three")
				disk := c.next(r, kill())
				// One that was posted meanwhile is seen, and deleted then.
				unposted := slices.DeleteFunc(slices.Clone(others), func(p *replica) bool { return len(r.calls(p.name)) > 0 })
				r.startOn("last", disk)
				took := r.rollBack(append(others, posted)...)
				r.sim.Settle()
				if v, ok := r.sim.Service(posted.name); ok && strings.Contains(string(v.JSON), posted.uid) {
					t.Error("it is acknowledged, and the POST that was under way has made it")
				}
				for _, p := range unposted {
					if waits := took[p.name] >= late; waits != c.waits {
						t.Errorf("%s, which was not posted, was acknowledged after %s", p.name, took[p.name])
					}
				}
			})
		})
	}
}

// TestTheNextSyncerLeavesOSCARToAWriteUnderWay: two at once disturb each other, as MinIO restarts for both. Without one
// nothing waits.
func TestTheNextSyncerLeavesOSCARToAWriteUnderWay(t *testing.T) {
	const takes = 15 * time.Second
	for name, underWay := range map[string]bool{"a POST is under way": true, "nothing is": false} {
		t.Run(name, func(t *testing.T) {
			await.InVirtualTime(t, func(t *testing.T) {
				r := newRig(t, oscarsim.Config{Latency: 10 * time.Second})
				change := []func(*syncer.Config){func(c *syncer.Config) { c.Lock = "one" }}
				if underWay {
					change = append(change, r.worksLong)
				}
				kill := r.startOn("first", &world.Disk{}, change...)
				r.eventually("it has reported", func() bool { return r.cluster() != nil && r.cluster().InDoubt != "" })
				if underWay {
					r.ordered("one", "two")
				}
				disk := kill()
				asked, began := r.sim.Next(oscarsim.OpCreate), time.Now()
				r.startOn("second", disk, change[0])
				p := newReplica("three")
				r.want(p, record.IntentPrepare)
				r.await(p, record.PhasePrepared)
				voted := time.Since(began)
				r.want(p, record.IntentApply)
				<-asked
				if waited := time.Since(began) >= takes; waited != underWay {
					t.Errorf("a POST came %s after the start", time.Since(began))
				}
				if voted >= takes {
					t.Errorf("a vote came after %s", voted)
				}
			})
		})
	}
}

// TestTheListKeepsAWriteUnderWay, through full compares: the next syncer has to know of it.
func TestTheListKeepsAWriteUnderWay(t *testing.T) {
	await.InVirtualTime(t, func(t *testing.T) {
		r := newRig(t, oscarsim.Config{})
		disk := &world.Disk{}
		r.startOn("first", disk, func(c *syncer.Config) { c.Resync = time.Second })
		p := newReplica("one")
		r.makeReady(p)
		r.fault(oscarsim.OpUpdate, oscarsim.FaultHang, 1)
		asked := r.sim.Next(oscarsim.OpUpdate)
		r.want(p, record.IntentDelete)
		<-asked
		for range 30 {
			r.put("/oscarfed/v1/clock", record.ObservedCluster{V: 1}) // a revision, which a full compare saves
			<-time.After(time.Second)
			if text, err := disk.Load(); err != nil || !strings.Contains(string(text), `"one":`) {
				t.Fatalf("the list is %s (%v)", text, err)
			}
		}
	})
}

// noDisk fails to save when it is told to.
type noDisk struct {
	world.Disk
	full atomic.Bool
}

func (d *noDisk) Save(text []byte) error {
	if d.full.Load() {
		return errors.New("no space left on device")
	}
	return d.Disk.Save(text)
}

var _ services.DoubtList = (*noDisk)(nil)

// TestWritesGoOnWithoutADisk: nothing is sent that is not in the list while observed/cluster names it.
func TestWritesGoOnWithoutADisk(t *testing.T) {
	await.InVirtualTime(t, func(t *testing.T) {
		r := newRig(t, oscarsim.Config{})
		disk := &noDisk{}
		r.start(func(c *syncer.Config) { c.InDoubt = disk })
		r.makeReady(newReplica("one"))
		named := r.cluster().InDoubt
		if named == "" {
			t.Fatal("no list is named")
		}
		disk.full.Store(true)
		p := newReplica("two")
		asked := r.sim.Next(oscarsim.OpCreate)
		go func() {
			<-asked
			if got := r.cluster().InDoubt; got != "" {
				t.Errorf("a POST is sent under the list %q", got)
			}
		}()
		r.makeReady(p)
		r.inPlace(p)
	})
}

// TestALostSessionAssumesNothingAnew: how long the process waits for its own POST begins with that.
func TestALostSessionAssumesNothingAnew(t *testing.T) {
	await.InVirtualTime(t, func(t *testing.T) {
		r := newRig(t, oscarsim.Config{})
		r.fault(oscarsim.OpCreate, oscarsim.FaultHang, 1)
		r.startOn("first", &world.Disk{})
		r.eventually("it has reported", func() bool { return r.cluster() != nil && r.cluster().InDoubt != "" })
		posted, others := r.ordered("one", "two", "three")
		<-time.After(150 * time.Second)
		r.revokeSession()
		for name, took := range r.rollBack(append(others, posted)...) {
			if took >= 250*time.Second {
				t.Errorf("%s was acknowledged after %s", name, took)
			}
		}
	})
}
