package syncer_test

import (
	"fmt"
	"net/http"
	"testing"

	"github.com/oscarfed/oscarfed/internal/oscarsim"
	"github.com/oscarfed/oscarfed/store/record"
	"github.com/oscarfed/oscarfed/test/await"
)

// strangers make a bucket of a name that the store remembers as left by an earlier
// life, each in another way. Every one is foreign.
var strangers = []struct {
	what string
	make func(r *rig, bucket string)
}{
	{"the bucket of another service", func(r *rig, bucket string) { r.foreignService("stranger", bucket) }},
	{"what another service left", func(r *rig, bucket string) { r.leave("stranger", bucket); r.watchBucket(bucket) }},
	{"the bucket of another user", func(r *rig, bucket string) { r.bucketOf("bob", bucket) }},
	{"the bucket of another user's service", func(r *rig, bucket string) { r.serviceOf("bob", "stranger", bucket) }},
	{"a bucket without tags that another service names", func(r *rig, bucket string) {
		r.sim.PutBucket(bucket, "in/precious")
		def := fmt.Sprintf(`{"name":"canary","image":"example.org/foreign","script":"true","owner":"cluster_admin",
			"input":[{"storage_provider":"minio.default","path":"canary-data/in"}],
			"output":[{"storage_provider":"minio.default","path":"canary-data/out"},{"storage_provider":"minio.default","path":"%s/out"}]}`, bucket)
		r.ask(http.MethodPut, "/system/services", def)
		r.canaries = nil
		r.watch("service canary", func() any { v, _ := r.sim.Service("canary"); return v })
		r.watchBucket(bucket)
		r.watchBucket("canary-data")
	}},
}

// bucketOf makes a user's own bucket, and watches over it.
func (r *rig) bucketOf(user, bucket string) {
	r.t.Helper()
	r.serviceOf(user, "of-"+user, "of-"+user)
	r.sim.TagBucket(bucket, map[string]string{"owner": user, "owner_name": user})
	r.watchBucket(bucket)
}

// serviceOf makes a user's service with a bucket, and watches over both.
func (r *rig) serviceOf(user, name, bucket string) {
	r.t.Helper()
	def := fmt.Sprintf(`{"name":%q,"image":"example.org/foreign","script":"true","owner":%q,
		"input":[{"storage_provider":"minio.default","path":"%s/in"}]}`, name, user, bucket)
	if err := r.sim.PutService(def); err != nil {
		r.t.Fatal(err)
	}
	r.watch("service "+name, func() any { v, _ := r.sim.Service(name); return v })
	r.watchBucket(bucket)
}

// TestABucketOfSomebodyElseIsNotAttached: an earlier life left it, it was deleted, and
// somebody else made another of its name. What the store remembers is not what stands.
func TestABucketOfSomebodyElseIsNotAttached(t *testing.T) {
	for _, tc := range strangers {
		t.Run(tc.what, func(t *testing.T) {
			await.InVirtualTime(t, func(t *testing.T) {
				r := newRig(t, oscarsim.Config{})
				tc.make(r, "grayify")
				r.start()
				p := newReplica("grayify")
				p.left = []string{"grayify"}
				r.want(p, record.IntentPrepare)
				o := r.await(p, record.PhaseRefused)
				if o.Reason != record.ReasonForeignBucket && o.Reason != record.ReasonBucketLeft {
					t.Errorf("refused with %s: %s", o.Reason, o.Message)
				}
				r.equalCalls(p.name)
			})
		})
	}
}

// TestABucketThatBecameSomebodyElsesIsNotAttached: it is so since the vote, and the
// creation looks again.
func TestABucketThatBecameSomebodyElsesIsNotAttached(t *testing.T) {
	for _, tc := range strangers {
		t.Run(tc.what, func(t *testing.T) {
			await.InVirtualTime(t, func(t *testing.T) {
				r := newRig(t, oscarsim.Config{})
				r.start()
				p := newReplica("grayify")
				p.left = []string{"grayify"}
				r.want(p, record.IntentPrepare)
				r.await(p, record.PhasePrepared)
				tc.make(r, "grayify")
				r.want(p, record.IntentApply)
				r.await(p, record.PhaseFailed, func(o *record.Observed) bool {
					return o.Reason == record.ReasonForeignBucket || o.Reason == record.ReasonBucketLeft
				})
				r.equalCalls(p.name)
			})
		})
	}
}

// TestAVanishedServiceIsNotMadeAgainOverSomebodyElsesBucket: this life made a bucket
// of the name, which says nothing of the one that stands there now.
func TestAVanishedServiceIsNotMadeAgainOverSomebodyElsesBucket(t *testing.T) {
	for _, tc := range strangers {
		t.Run(tc.what, func(t *testing.T) {
			await.InVirtualTime(t, func(t *testing.T) {
				r := newRig(t, oscarsim.Config{})
				stop := r.start()
				p := newReplica("grayify")
				r.makeReady(p)
				stop()
				r.ask(http.MethodDelete, "/system/services/grayify", "")
				tc.make(r, "grayify")
				r.start()
				r.await(p, record.PhaseFailed, func(o *record.Observed) bool {
					return o.Reason == record.ReasonForeignBucket || o.Reason == record.ReasonBucketLeft
				})
				r.equalCalls(p.name, "create", "delete")
			})
		})
	}
}

// TestABucketWithoutTagsThatWasLeftIsAttached: OSCAR's PUT makes a bucket without tags.
func TestABucketWithoutTagsThatWasLeftIsAttached(t *testing.T) {
	await.InVirtualTime(t, func(t *testing.T) {
		r := newRig(t, oscarsim.Config{})
		r.sim.PutBucket("grayify", "in/mine")
		r.watchBucketData("grayify")
		r.start()
		p := newReplica("grayify")
		p.left = []string{"grayify"}
		r.makeReady(p)
		r.inPlace(p)
	})
}

// TestABucketThatAnotherServiceOfTheFederationLeftIsAttached: another service of
// the federation made it, and this one takes its place.
func TestABucketThatAnotherServiceOfTheFederationLeftIsAttached(t *testing.T) {
	await.InVirtualTime(t, func(t *testing.T) {
		r := newRig(t, oscarsim.Config{})
		r.leave("before", "grayify")
		r.watchBucketData("grayify")
		r.start()
		p := newReplica("grayify")
		p.left, p.leftBy = []string{"grayify"}, []string{"before"}
		r.makeReady(p)
		r.inPlace(p)
	})
}
