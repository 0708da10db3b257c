package syncer_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/oscarfed/oscarfed/api/oscar"
	"github.com/oscarfed/oscarfed/internal/oscarsim"
	"github.com/oscarfed/oscarfed/store/record"
	"github.com/oscarfed/oscarfed/syncer"
	"github.com/oscarfed/oscarfed/syncer/kube"
	"github.com/oscarfed/oscarfed/syncer/manager"
	"github.com/oscarfed/oscarfed/test/await"
)

func TestVoteNo(t *testing.T) {
	for _, tc := range []struct {
		name    string
		sim     oscarsim.Config
		setup   func(*rig, *replica)
		reason  record.Reason
		mention string
	}{
		{"a foreign service has the name", oscarsim.Config{}, func(r *rig, p *replica) {
			r.foreignService(p.name, "elsewhere")
		}, record.ReasonNameTaken, `"grayify"`},
		{"a half-created service has the name", oscarsim.Config{}, func(r *rig, p *replica) {
			r.sim.HalfCreate(p.name)
		}, record.ReasonNameTaken, `"grayify"`},
		{"a foreign bucket has the name of ours", oscarsim.Config{}, func(r *rig, p *replica) {
			r.sim.PutBucket("grayify", "in/precious")
			r.watchBucket("grayify")
		}, record.ReasonForeignBucket, `"grayify"`},
		{"a foreign service's bucket is named", oscarsim.Config{}, func(r *rig, p *replica) {
			p.buckets = []string{"canary-data"}
		}, record.ReasonForeignBucket, `"canary-data"`},
		{"a worker names a foreign bucket", oscarsim.Config{}, func(r *rig, p *replica) {
			p.coordinator, p.buckets = false, []string{"canary-data"}
		}, record.ReasonForeignBucket, `"canary-data"`},
		{"a volume of the name was made by nobody's service", oscarsim.Config{}, func(r *rig, p *replica) {
			r.sim.PutVolume(oscar.OwnerAdmin, "precious", "a")
			r.watchVolume(oscar.OwnerAdmin, "precious")
			p.mounts(map[string]any{"name": "precious", "size": "1Gi"})
		}, record.ReasonNameTaken, `"precious"`},
		{"a volume of the name was made by another service", oscarsim.Config{}, func(r *rig, p *replica) {
			r.leaveVolume("stranger", "precious")
			p.mounts(map[string]any{"name": "precious", "size": "1Gi"})
		}, record.ReasonNameTaken, `"precious"`},
		{"the volume that an earlier life left is too small", oscarsim.Config{}, func(r *rig, p *replica) {
			r.leaveVolume(p.name, p.name)
			p.mounts(map[string]any{"size": "2Gi"})
		}, record.ReasonNameTaken, "1Gi"},
		{"the volume to use is not there", oscarsim.Config{}, func(_ *rig, p *replica) {
			p.mounts(map[string]any{"name": "nothing"})
		}, record.ReasonInvalidService, `"nothing"`},
		{"no node is large enough", oscarsim.Config{}, func(r *rig, p *replica) { p.cpu = "5" }, record.ReasonDoesNotFit, "4000m"},
		{"no node is large enough for what cannot be counted", oscarsim.Config{}, func(r *rig, p *replica) { p.cpu = "1e18" }, record.ReasonDoesNotFit, "4000m"},
		{"no node has a GPU", oscarsim.Config{}, func(r *rig, p *replica) { p.extra = map[string]any{"enable_gpu": true} }, record.ReasonDoesNotFit, "GPU"},
		{"OSCAR is too old", oscarsim.Config{Version: "v3.7.1"}, nil, record.ReasonUnsupportedVersion, "v3.7.1"},
		{"the credential is refused", oscarsim.Config{}, func(r *rig, p *replica) {
			r.fault(oscarsim.OpAny, oscarsim.FaultDeny, 0)
		}, record.ReasonCredentialRefused, "password file"},
		{"the spec is sealed to somebody else", oscarsim.Config{}, func(r *rig, p *replica) {
			old := r.identity
			r.identity = newIdentity(t)
			r.stage(p)
			r.identity = old
		}, record.ReasonInvalidService, "identity"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			await.InVirtualTime(t, func(t *testing.T) {
				r := newRig(t, tc.sim)
				p := newReplica("grayify")
				if tc.setup != nil {
					tc.setup(r, p)
				}
				r.refuses(p, tc.reason, tc.mention)
			})
		})
	}
}

func TestVoteNoForABucketThatAnotherOwnerLeft(t *testing.T) {
	await.InVirtualTime(t, func(t *testing.T) {
		r, p, i := newUser(t)
		r.leave(p.name, p.name)
		r.deliver(i.Token(alice, nil), inAnHour())
		r.refuses(p, record.ReasonBucketLeft, `"grayify"`)
	})
}

// refuses starts a syncer, and wants it to refuse a replica.
func (r *rig) refuses(p *replica, reason record.Reason, mention string) {
	r.t.Helper()
	r.start()
	r.want(p, record.IntentPrepare)
	o := r.await(p, record.PhaseRefused)
	if o.Reason != reason || !strings.Contains(o.Message, mention) {
		r.t.Errorf("refused with %s: %s\nwant %s with %q", o.Reason, o.Message, reason, mention)
	}
	if o.Vote == nil || o.Vote.Answer != record.VoteNo || o.Vote.Revision != p.revision {
		r.t.Errorf("vote %+v, want a no at revision %d", o.Vote, p.revision)
	}
	r.sim.ClearFaults()
	r.equalCalls(p.name)
}

func TestVoteYes(t *testing.T) {
	for _, tc := range []struct {
		name  string
		sim   oscarsim.Config
		setup func(*rig, *replica)
	}{
		{"nothing is there", oscarsim.Config{}, nil},
		{"OSCAR was built without a release", oscarsim.Config{Version: "devel"}, nil},
		{"a cluster without metrics has no opinion", oscarsim.Config{NoMetrics: true}, func(_ *rig, p *replica) { p.cpu = "100" }},
		{"the bucket was left by an earlier life of the owner", oscarsim.Config{}, func(r *rig, p *replica) { r.leave(p.name, p.name) }},
		{"the control plane knows the bucket", oscarsim.Config{}, func(r *rig, p *replica) {
			r.sim.PutBucket("grayify", "in/mine")
			p.left = []string{"grayify"}
		}},
		{"an earlier life left its volume", oscarsim.Config{}, func(r *rig, p *replica) {
			r.leaveVolume(p.name, p.name)
			p.mounts(map[string]any{"size": "1024Mi"})
		}},
		{"a volume to use is there", oscarsim.Config{}, func(r *rig, p *replica) {
			r.sim.PutVolume(oscar.OwnerAdmin, "shared", "a")
			p.mounts(map[string]any{"name": "shared"})
		}},
		{"OSCAR manages no volumes", oscarsim.Config{NoVolumes: true}, func(_ *rig, p *replica) { p.mounts(map[string]any{"size": "1Gi"}) }},
		{"a bucket to mount exists", oscarsim.Config{}, func(r *rig, p *replica) {
			r.sim.PutBucket("my-data", "a")
			p.extra = map[string]any{"mount": map[string]any{"storage_provider": "minio.default", "path": "my-data"}}
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			await.InVirtualTime(t, func(t *testing.T) {
				r := newRig(t, tc.sim)
				p := newReplica("grayify")
				if tc.setup != nil {
					tc.setup(r, p)
				}
				r.start()
				r.want(p, record.IntentPrepare)
				r.await(p, record.PhasePrepared)
				r.equalCalls(p.name)
			})
		})
	}
}

// TestAServiceThatFitsOnNoNodeIsRefusedWithoutMetrics: OSCAR does not know its nodes,
// and Kubernetes does.
func TestAServiceThatFitsOnNoNodeIsRefusedWithoutMetrics(t *testing.T) {
	nodes := []kube.Node{
		{Name: "wide", Allocatable: kube.Resources{MilliCPU: 8000, MemoryBytes: gib}},
		{Name: "gpu", Allocatable: kube.Resources{MilliCPU: 2000, MemoryBytes: 8 * gib, GPU: 1}},
	}
	for what, tc := range map[string]struct {
		below kube.Interface
		cpu   string
		gpu   bool
		phase record.Phase
	}{
		"it fits":                        {&below{nodes: nodes}, "8", false, record.PhasePrepared},
		"no node has so much":            {&below{nodes: nodes}, "9", false, record.PhaseRefused},
		"the node with the GPU has less": {&below{nodes: nodes}, "4", true, record.PhaseRefused},
		"no node is known":               {&below{}, "9", false, record.PhasePrepared},
		"no right to look":               {&below{err: fmt.Errorf("list: %w", kube.ErrDenied)}, "9", false, record.PhasePrepared},
	} {
		t.Run(what, func(t *testing.T) {
			await.InVirtualTime(t, func(t *testing.T) {
				r := newRig(t, oscarsim.Config{NoMetrics: true})
				r.start(func(c *syncer.Config) { c.Kube = tc.below })
				p := newReplica("grayify")
				p.cpu, p.extra = tc.cpu, map[string]any{"enable_gpu": tc.gpu}
				r.want(p, record.IntentPrepare)
				if o := r.await(p, tc.phase); tc.phase == record.PhaseRefused && (o.Reason != record.ReasonDoesNotFit || !strings.Contains(o.Message, `"wide"`)) {
					t.Errorf("refused with %s: %s", o.Reason, o.Message)
				}
			})
		})
	}
}

func TestVoteWaitsOutATransientError(t *testing.T) {
	await.InVirtualTime(t, func(t *testing.T) {
		r := newRig(t, oscarsim.Config{})
		r.fault(oscarsim.OpBuckets, oscarsim.Fault500, 2)
		r.start()
		p := newReplica("grayify")
		r.want(p, record.IntentPrepare)
		r.await(p, record.PhasePrepared)
	})
}

// TestVoteWhenOurClockIsAhead: whether a vote is late is for the control plane to
// say, by its own clock. Ours may be hours ahead of the one that set the deadline.
func TestVoteWhenOurClockIsAhead(t *testing.T) {
	await.InVirtualTime(t, func(t *testing.T) {
		r := newRig(t, oscarsim.Config{})
		r.start()
		replica := newReplica("ahead")
		r.want(replica, record.IntentPrepare, func(d *record.Desired) { d.Deadline = new(record.At(time.Now().Add(-3 * time.Hour))) })
		r.await(replica, record.PhasePrepared)
	})
}

// TestStaleVoteOfAnAbortedAttempt: the vote for an attempt that was given up is
// not written once the next attempt of the same name has begun.
func TestStaleVoteOfAnAbortedAttempt(t *testing.T) {
	await.InVirtualTime(t, func(t *testing.T) {
		r := newRig(t, oscarsim.Config{})
		gate, inner := newGate(), r.oscar("syncer")
		r.start(func(c *syncer.Config) {
			c.OSCAR = &proxy{OSCAR: inner, buckets: func(ctx context.Context) ([]manager.Bucket, error) {
				buckets, err := inner.Buckets(ctx)
				gate.pass()
				return buckets, err
			}}
		})
		r.eventually("it is known which OSCAR it is", func() bool { c := r.cluster(); return c != nil && c.OscarID != "" })
		gate.arm()
		first, second := newReplica("grayify"), newReplica("grayify")
		r.want(first, record.IntentPrepare)
		<-gate.reached
		r.want(second, record.IntentPrepare)
		close(gate.opened)
		o := r.await(second, record.PhasePrepared)
		if o.Vote.Revision != second.revision || o.UID != second.uid {
			t.Errorf("vote %+v for %s, want one for revision %d", o.Vote, o.UID, second.revision)
		}
		r.past(first.name, 1, func(o *record.Observed) {
			if o.UID != second.uid {
				t.Errorf("a vote for the attempt that was given up: %+v", o)
			}
		})
	})
}

func TestRefusedIsCheckedAgainAtAResync(t *testing.T) {
	await.InVirtualTime(t, func(t *testing.T) {
		r := newRig(t, oscarsim.Config{})
		r.sim.PutBucket("grayify")
		r.start()
		p := newReplica("grayify")
		r.want(p, record.IntentPrepare)
		r.await(p, record.PhaseRefused)
		r.deleteBucket("grayify")
		if o := r.await(p, record.PhasePrepared); o.Vote.Answer != record.VoteYes || o.Message != "" {
			t.Errorf("after the obstacle is gone: %+v", o)
		}
	})
}

// TestVotesTellTheDelay: with creations under way, a vote says how long they take.
func TestVotesTellTheDelay(t *testing.T) {
	await.InVirtualTime(t, func(t *testing.T) {
		r := newRig(t, oscarsim.Config{Latency: 700 * time.Millisecond})
		r.start()
		const n = 12
		delays := map[int64]bool{}
		most := int64(0)
		for i := range n {
			p := newReplica("many-" + string(rune('a'+i)))
			r.want(p, record.IntentPrepare)
			o := r.await(p, record.PhasePrepared)
			delays[o.Vote.DelayS] = true
			most = max(most, o.Vote.DelayS)
		}
		if len(delays) != n || most != (n-1)*7 {
			t.Errorf("before any creation was measured, delays %v with most %d; want one write of 7 s more each", delays, most)
		}
	})
}

func TestVotesShareLists(t *testing.T) {
	await.InVirtualTime(t, func(t *testing.T) {
		r := newRig(t, oscarsim.Config{})
		r.start(func(c *syncer.Config) { c.Resync = never })
		const n = 40
		var all []*replica
		for i := range n {
			all = append(all, newReplica(fmt.Sprintf("many-%02d", i)))
		}
		r.eventually("the first resync is over", func() bool { return r.sim.Calls()["config"] > 0 })
		before := r.sim.Calls()["list"]
		r.wantTogether(all, record.IntentPrepare)
		for _, p := range all {
			r.await(p, record.PhasePrepared)
		}
		if lists := r.sim.Calls()["list"] - before; lists > n/4 { // on a busy machine the moment lasts
			t.Errorf("%d votes of the same moment cost %d lists", n, lists)
		}
	})
}

// The write queue that is told is that of the present session: a cluster that is paused, or whose OSCAR is away, has none.
func TestNothingWaitsForAWriteAfterASession(t *testing.T) {
	await.InVirtualTime(t, func(t *testing.T) {
		r := newRig(t, oscarsim.Config{})
		registry := prometheus.NewRegistry()
		r.start(func(c *syncer.Config) { c.Registry = registry })
		r.fault(oscarsim.OpCreate, oscarsim.FaultHang, 1)
		blocker := newReplica("blocker")
		r.want(blocker, record.IntentApply)
		r.eventually("a create hangs", func() bool { return len(r.calls(blocker.name)) == 1 })
		for i := range 3 {
			r.want(newReplica(fmt.Sprintf("many-%d", i)), record.IntentApply)
		}
		r.eventually("the others wait", func() bool { return queued(t, registry) == 3 })
		r.register(record.ClusterPaused)
		r.revokeSession()
		r.eventually("none waits", func() bool { return queued(t, registry) == 0 })
	})
}

// TestWritesGoOneByOneMostUrgentFirst: behind a write that hangs, the others
// wait; then the one with the earliest deadline goes first, and the deletion of
// a rollback last. A vote waits for none of them.
func TestWritesGoOneByOneMostUrgentFirst(t *testing.T) {
	await.InVirtualTime(t, func(t *testing.T) {
		r := newRig(t, oscarsim.Config{BreakConcurrent: true})
		registry := prometheus.NewRegistry()
		r.start(func(c *syncer.Config) { c.Registry = registry })

		rollback := newReplica("rolled-back")
		r.want(rollback, record.IntentApply)
		r.await(rollback, record.PhaseReady)

		r.fault(oscarsim.OpCreate, oscarsim.FaultHang, 1)
		blocker := newReplica("blocker")
		r.want(blocker, record.IntentApply)
		r.eventually("a create hangs", func() bool { return len(r.calls(blocker.name)) == 1 })
		r.want(rollback, record.IntentDelete, func(d *record.Desired) { d.Cause = record.CauseRollback })

		start := time.Now()
		var want []string
		var all []*replica
		for i := range 6 {
			p := newReplica(fmt.Sprintf("many-%d", i))
			all = append(all, p)
			want = append([]string{p.name}, want...) // the last has the earliest deadline
			r.want(p, record.IntentApply, func(d *record.Desired) {
				d.Deadline = new(record.At(start.Add(time.Hour - time.Duration(i)*time.Minute)))
			})
		}
		r.eventually("the others wait", func() bool { return queued(t, registry) == 7 })
		voter := newReplica("voter")
		r.want(voter, record.IntentPrepare)
		r.await(voter, record.PhasePrepared)

		r.sim.ClearFaults()
		for _, p := range all {
			r.await(p, record.PhaseReady)
		}
		r.await(rollback, record.PhaseDeleted)
		var got []string
		deleted := -1
		for _, c := range r.sim.Log() {
			if c.Op == oscarsim.OpCreate && strings.HasPrefix(c.Service, "many-") {
				got = append(got, c.Service)
			}
			if c.Op == oscarsim.OpDelete && c.Service == rollback.name {
				deleted = len(got)
			}
			if c.Status >= 500 && c.Service != blocker.name && c.Op != oscarsim.OpUpdate {
				t.Errorf("%s of %s answered %d: writes were not in series", c.Op, c.Service, c.Status)
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("order %v, want %v", got, want)
		}
		if deleted != len(want) {
			t.Errorf("the rollback's deletion went after %d of %d creations", deleted, len(want))
		}
	})
}
