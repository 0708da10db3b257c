package syncer_test

import (
	"fmt"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/oscarfed/oscarfed/internal/oscarsim"
	"github.com/oscarfed/oscarfed/store/record"
	"github.com/oscarfed/oscarfed/syncer"
	"github.com/oscarfed/oscarfed/test/await"
	"github.com/oscarfed/oscarfed/test/world"
)

// TestABucketThatMinIOMakesAgainIsToldToBeSilent: somebody deletes the service with its bucket, and MinIO, which restarts for
// another one, makes the bucket again. An upload there starts no job.
func TestABucketThatMinIOMakesAgainIsToldToBeSilent(t *testing.T) {
	await.InVirtualTime(t, func(t *testing.T) {
		r := newRig(t, oscarsim.Config{})
		stop := r.start()
		p := newReplica("grayify")
		r.makeReady(p)
		r.sim.RemoveService(p.name)
		r.sim.PutBucket(p.name)
		lost := r.await(p, record.PhaseDrifted, because(record.ReasonWebhookLost))
		r.inPlace(p)
		if !slices.Equal(lost.SilentInputs, p.buckets) || !strings.Contains(lost.Message, "start no job") {
			t.Errorf("the report is %+v", lost)
		}
		// The next syncer has not seen it.
		stop()
		r.start()
		r.resynced()
		if o := r.observed(p.name); o.Reason != record.ReasonWebhookLost {
			t.Errorf("after a restart the report is %+v", o)
		}
		// A bucket that is missing is made by a PUT, with its notification.
		r.sim.RemoveBucket(p.name)
		r.await(p, record.PhaseReady, func(o *record.Observed) bool { return o.SilentInputs == nil })
		if b, _ := r.sim.Bucket(p.name); !slices.Equal(b.Notifies, []string{p.name}) {
			t.Errorf("the bucket is %+v", b)
		}
		r.resynced()
		if o := r.observed(p.name); o.Phase != record.PhaseReady {
			t.Errorf("the report is %+v", o)
		}
	})
}

// TestADELETEByHand: OSCAR takes the service away first, and its bucket when MinIO has restarted. A service that is made
// again before has a bucket that goes, or none of its own.
func TestADELETEByHand(t *testing.T) {
	await.InVirtualTime(t, func(t *testing.T) {
		r := newRig(t, oscarsim.Config{Latency: oscarsim.RealLatency, RevivesBuckets: true})
		r.start(func(c *syncer.Config) { c.Resync = time.Second })
		p := newReplica("grayify")
		r.makeReady(p)
		made, _ := r.sim.Bucket(p.name)
		before := r.mirror.Revision()
		r.ask(http.MethodDelete, "/system/services/grayify", "")
		r.eventually("drifted, and ready again", func() bool { return r.phases(p.name, before) == "drifted drifted ready" })
		r.inPlace(p)
		if b, _ := r.sim.Bucket(p.name); !reflect.DeepEqual(b, made) {
			t.Errorf("the bucket is %+v, and was %+v", b, made)
		}
		r.equalCalls(p.name, "create", "delete", "create")
	})
}

// TestADELETEByHandIsSeenInIt: the service is not as desired, or another one stands in its place. It is looked at while OSCAR
// is at work on the DELETE.
func TestADELETEByHandIsSeenInIt(t *testing.T) {
	for name, before := range map[string]func(*rig, *replica, func() <-chan int){
		"a change comes": func(_ *rig, p *replica, _ func() <-chan int) { p.generation = 2 },
		"a change is not in place": func(r *rig, p *replica, _ func() <-chan int) {
			r.fault(oscarsim.OpUpdate, oscarsim.Fault500, 0)
			p.generation, p.image = 2, "example.org/other:2"
			r.want(p, record.IntentApply)
			r.await(p, record.PhaseFailed)
			r.sim.ClearFaults()
		},
		"it has lost its mark": func(r *rig, p *replica, remove func() <-chan int) {
			made, _ := r.sim.Bucket(p.name)
			done := remove()
			r.await(p, record.PhaseDrifted)
			<-done
			again := fmt.Sprintf(`{"name":"grayify","image":"i","script":"s","annotations":{"oscarfed/uid":%q},"input":[{"storage_provider":"minio.default","path":"grayify/in"}]}`, p.uid)
			r.ask(http.MethodPost, "/system/services", again)
			r.await(p, record.PhaseHeld, because(record.ReasonMarkLost))
			<-time.After(time.Minute)
			r.sim.TagBucket(p.name, made.Tags)
		},
	} {
		t.Run(name, func(t *testing.T) {
			await.InVirtualTime(t, func(t *testing.T) {
				r := newRig(t, oscarsim.Config{Latency: oscarsim.RealLatency, RevivesBuckets: true})
				r.start(func(c *syncer.Config) { c.Resync = never })
				p := newReplica("grayify")
				r.makeReady(p)
				remove := func() <-chan int {
					done := make(chan int, 1)
					go func() { done <- r.ask(http.MethodDelete, "/system/services/grayify", "") }()
					<-time.After(time.Second)
					r.want(p, record.IntentApply) // look
					return done
				}
				before(r, p, remove)
				<-remove()
				r.await(p, record.PhaseReady)
				r.inPlace(p)
				if b, _ := r.sim.Bucket(p.name); len(b.Tags) == 0 || !slices.Equal(b.Notifies, []string{p.name}) {
					t.Errorf("the bucket is %+v", b)
				}
			})
		})
	}
}

// TestADELETEByHandWhileAnotherServiceIsMade: MinIO restarts for both.
func TestADELETEByHandWhileAnotherServiceIsMade(t *testing.T) {
	for _, after := range []time.Duration{time.Second, 3 * time.Second, 6 * time.Second} {
		t.Run(after.String(), func(t *testing.T) {
			await.InVirtualTime(t, func(t *testing.T) {
				r := newRig(t, oscarsim.Config{Latency: oscarsim.RealLatency, RevivesBuckets: true})
				r.start()
				p := newReplica("grayify")
				r.makeReady(p)
				done := make(chan int, 2)
				go func() { done <- r.ask(http.MethodDelete, "/system/services/grayify", "") }()
				<-time.After(after)
				go func() {
					done <- r.ask(http.MethodPost, "/system/services", strings.ReplaceAll(vandal, "grayify", "other"))
				}()
				<-done
				<-done
				r.await(p, record.PhaseDrifted, because(record.ReasonWebhookLost))
				r.inPlace(p)
				if b, _ := r.sim.Bucket(p.name); len(b.Notifies) > 0 {
					t.Errorf("uploads start a job: %+v", b)
				}
			})
		})
	}
}

// TestABucketThatWasLeftIsNotSilent: the service was deleted without its bucket, which has its tags and its notification.
func TestABucketThatWasLeftIsNotSilent(t *testing.T) {
	await.InVirtualTime(t, func(t *testing.T) {
		r := newRig(t, oscarsim.Config{})
		r.start()
		p := newReplica("grayify")
		r.makeReady(p)
		b, _ := r.sim.Bucket(p.name)
		r.sim.RemoveService(p.name)
		r.sim.TagBucket(p.name, b.Tags)
		r.await(p, record.PhaseDrifted)
		if o := r.await(p, record.PhaseReady); o.SilentInputs != nil {
			t.Errorf("the report is %+v", o)
		}
		r.resynced()
		if o := r.observed(p.name); o.Phase != record.PhaseReady {
			t.Errorf("the report is %+v", o)
		}
	})
}

// TestADELETEByHandInAPUT of a service that was never in place: OSCAR makes its Secret again in the PUT.
func TestADELETEByHandInAPUT(t *testing.T) {
	for name, restart := range map[string]bool{"the syncer goes on": false, "the syncer is killed": true} {
		t.Run(name, func(t *testing.T) {
			await.InVirtualTime(t, func(t *testing.T) {
				r := newRig(t, oscarsim.Config{Latency: oscarsim.RealLatency})
				r.leave("grayify", "grayify") // so that a PUT follows the POST
				kill := r.startOn("first", &world.Disk{})
				p := newReplica("grayify")
				p.left = []string{"grayify"}
				r.want(p, record.IntentPrepare)
				r.await(p, record.PhasePrepared)
				asked := r.sim.Next(oscarsim.OpUpdate)
				r.want(p, record.IntentApply)
				<-asked
				<-time.After(time.Second)
				r.ask(http.MethodDelete, "/system/services/grayify", "")
				if restart {
					r.startOn("second", kill())
				}
				r.await(p, record.PhaseReady)
				r.inPlace(p)
			})
		})
	}
}
