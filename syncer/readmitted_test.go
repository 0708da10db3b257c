package syncer_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/oscarfed/oscarfed/internal/oscarsim"
	"github.com/oscarfed/oscarfed/store/record"
	"github.com/oscarfed/oscarfed/test/await"
)

// TestWhatStoodBeforeAReadmissionIsRepaired: its reports are deleted, and the order keeps that the service was in place.
func TestWhatStoodBeforeAReadmissionIsRepaired(t *testing.T) {
	for name, c := range map[string]struct {
		happens func(r *rig, p *replica)
		// kube says that the syncer has Kubernetes, and changed that the order was changed meanwhile.
		kube, changed bool
	}{
		"the service is gone, and its Secret is left": {happens: func(r *rig, p *replica) {
			r.sim.RemoveService(p.name)
			r.sim.LeftoverSecret(p.name)
		}, kube: true},
		"so it is, without Kubernetes": {happens: func(r *rig, p *replica) {
			r.sim.RemoveService(p.name)
			r.sim.LeftoverSecret(p.name)
		}},
		"so it is, and it was changed": {happens: func(r *rig, p *replica) {
			r.sim.RemoveService(p.name)
			r.sim.LeftoverSecret(p.name)
		}, kube: true, changed: true},
		"a bucket is gone": {happens: func(r *rig, p *replica) { r.deleteBucket(p.name) }},
	} {
		t.Run(name, func(t *testing.T) {
			await.InVirtualTime(t, func(t *testing.T) {
				r := newRig(t, oscarsim.Config{})
				start := func() (stop func()) {
					if c.kube {
						return r.start(withSecrets(r))
					}
					return r.start()
				}
				stop := start()
				p := newReplica("grayify")
				r.makeReady(p)
				stop()
				c.happens(r, p)
				told := &record.Told{Applied: r.observed(p.name).Applied()}
				r.remove(record.ObservedServiceKey(clusterID, p.name))
				if c.changed {
					p.generation, p.cpu = 2, "0.7"
				}
				r.want(p, record.IntentApply, func(d *record.Desired) { d.Told = told })
				start()
				r.await(p, record.PhaseReady)
				r.inPlace(p)
				r.secretIs(p)
			})
		})
	}
}

// TestAnEndIsAcknowledgedAgainAsBeforeAReadmission: what it has left cannot be seen any more.
func TestAnEndIsAcknowledgedAgainAsBeforeAReadmission(t *testing.T) {
	await.InVirtualTime(t, func(t *testing.T) {
		r := newRig(t, oscarsim.Config{})
		p := newReplica("grayify")
		r.sim.LeftoverSecret(p.name)
		end := &record.End{
			BucketsMade: []string{"grayify"}, SecretLeft: true, Operation: record.OperationDelete, Message: "so it ended",
			BucketFates: []record.BucketFate{{Bucket: "grayify", Fate: record.BucketKept}},
			VolumeFate:  &record.VolumeFate{Volume: "grayify", Fate: record.BucketDeleted},
		}
		r.want(p, record.IntentDelete, func(d *record.Desired) { d.Data, d.Told = record.DataDelete, &record.Told{End: end} })
		r.start(withSecrets(r))
		o := r.await(p, record.PhaseDeleted)
		got := &record.End{
			BucketsMade: o.BucketsMade, BucketFates: o.BucketFates, VolumeFate: o.VolumeFate, SecretLeft: o.SecretLeft,
			Operation: o.Operation, Message: o.Message,
		}
		if diff := cmp.Diff(end, got); diff != "" {
			t.Error(diff)
		}
		r.equalCalls(p.name)
	})
}

// TestAServiceThatCameBackBeforeAReadmissionIsDeleted: its tombstone had been acknowledged, and is anew.
func TestAServiceThatCameBackBeforeAReadmissionIsDeleted(t *testing.T) {
	await.InVirtualTime(t, func(t *testing.T) {
		r := newRig(t, oscarsim.Config{})
		stop := r.start()
		p := newReplica("grayify")
		r.makeReady(p)
		stop()
		r.remove(record.ObservedServiceKey(clusterID, p.name))
		r.want(p, record.IntentDelete, func(d *record.Desired) { d.Told = &record.Told{End: &record.End{Message: "so it ended"}} })
		r.start()
		o := r.await(p, record.PhaseDeleted)
		if _, stands := r.sim.Service(p.name); stands || o.Message != "" || o.Operation != record.OperationDelete {
			t.Errorf("it stands: %t, told as %+v", stands, o)
		}
	})
}
