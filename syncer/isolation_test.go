package syncer_test

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/oscarfed/oscarfed/internal/oscarsim"
	"github.com/oscarfed/oscarfed/store/embedded"
	"github.com/oscarfed/oscarfed/store/record"
	"github.com/oscarfed/oscarfed/store/storetest/virtual"
	"github.com/oscarfed/oscarfed/test/await"
)

// bob's id is long enough for a bucket to be named after it, and so are those of his friends.
const (
	bob      = "0123456789abcdef@egi.eu/Bob"
	carol    = "carolcarol0000"
	dave     = "davedavedave00"
	carolOwn = "grayify-carolcarol"
	daveOwn  = "grayify-davedaveda"
)

// newIsolated is a service whose users have buckets of their own.
func newIsolated(t *testing.T) (*rig, *replica, func()) {
	t.Helper()
	n := virtual.NewNetwork(t, embedded.Config{})
	i := newIssuer(t, n)
	r := newRigOn(t, n, withUsers(i))
	p := newReplica("grayify")
	p.owner = bob
	p.extra = map[string]any{"isolation_level": "USER", "allowed_users": []string{carol}}
	give := func() { r.deliver(i.Token(bob, nil), inAnHour()) }
	give()
	r.start()
	r.makeReady(p)
	r.sim.PutBucket(carolOwn, "in/carols")
	r.watchBucketData(carolOwn)
	return r, p, give
}

// forgetToken takes the owner's token away.
func (r *rig) forgetToken() { r.remove(record.TokensKey(clusterID, "fed")) }

func (r *rig) objects(bucket string) []string {
	v, _ := r.sim.Bucket(bucket)
	return v.Objects
}

// TestAChangeOfIsolationEmptiedTheUsersBuckets: OSCAR deletes each bucket that a PUT does
// not list any more.
func TestAChangeOfIsolationEmptiedTheUsersBuckets(t *testing.T) {
	for _, tc := range []struct {
		name  string
		extra map[string]any
	}{
		{"to SERVICE", map[string]any{"isolation_level": "SERVICE", "allowed_users": []string{carol}}},
		{"to nothing", nil},
		{"without users", map[string]any{"isolation_level": "USER", "allowed_users": []string{}}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			await.InVirtualTime(t, func(t *testing.T) {
				r, p, _ := newIsolated(t)
				r.forgetToken()
				p.generation, p.extra = 2, tc.extra
				r.want(p, record.IntentApply)
				r.await(p, record.PhaseReady)
				r.equalCalls(p.name, "create", "update")
				if got := r.objects(carolOwn); !slices.Contains(got, "in/carols") {
					t.Errorf("the bucket holds %v", got)
				}
				r.want(p, record.IntentDelete, func(d *record.Desired) { d.Data = "delete" })
				r.await(p, record.PhaseDeleted)
			})
		})
	}
}

// TestEveryChangeOfAnIsolatedServiceFailed: OSCAR has no id of the administrator to name
// the buckets with, and answered 500 to each PUT of the cluster's own credential.
func TestEveryChangeOfAnIsolatedServiceFailed(t *testing.T) {
	await.InVirtualTime(t, func(t *testing.T) {
		r, p, give := newIsolated(t)
		r.forgetToken()
		p.generation, p.image = 2, "example.org/other"
		r.want(p, record.IntentApply)
		r.await(p, record.PhaseReady)
		if v, _ := r.sim.Service(p.name); v.Image != p.image {
			t.Fatalf("the image is %s", v.Image)
		}

		// A user's bucket is prepared by OSCAR for its owner: that takes his token.
		p.generation = 3
		p.extra = map[string]any{"isolation_level": "USER", "allowed_users": []string{carol, dave}}
		r.want(p, record.IntentApply)
		r.await(p, record.PhaseFailed, because(record.ReasonNeedsUserToken))
		r.equalCalls(p.name, "create", "update")
		give()
		r.await(p, record.PhaseReady)
		if _, ok := r.sim.Bucket(daveOwn); !ok {
			t.Error("the new user has no bucket")
		}
		v, _ := r.sim.Service(p.name)
		if !strings.Contains(string(v.JSON), `"bucket_list":["`+carolOwn+`","`+daveOwn+`"]`) {
			t.Errorf("OSCAR shows %s", v.JSON)
		}
		// It goes free as it is.
		r.want(p, record.IntentDelete, func(d *record.Desired) { d.Cause, d.Keep = record.CauseRemoved, record.KeepRelease })
		r.await(p, record.PhaseDeleted)
	})
}

// TestARepairOfIsolationEmptiedTheUsersBuckets: somebody has made the service one with
// buckets for each user, and the repair takes that back.
func TestARepairOfIsolationEmptiedTheUsersBuckets(t *testing.T) {
	await.InVirtualTime(t, func(t *testing.T) {
		r := newRig(t, oscarsim.Config{})
		r.start()
		p := newReplica("grayify")
		r.makeReady(p)
		r.sim.PutBucket(carolOwn, "in/carols")
		r.watchBucketData(carolOwn)
		vandal := `{"name":"grayify","image":"example.org/vandal","script":"s","owner":"cluster_admin","isolation_level":"USER","bucket_list":["` + carolOwn + `"]}`
		if status := r.ask(http.MethodPut, "/system/services", vandal); status >= 400 && status != 500 {
			t.Fatal(status)
		}
		r.eventually("it is repaired", func() bool { v, _ := r.sim.Service(p.name); return v.Image == p.image })
		r.want(p, record.IntentDelete)
		r.await(p, record.PhaseDeleted)
	})
}

// TestARepairOfIsolationWasNeverEnough: OSCAR adds the owner to the allowed users when he makes the
// service, and no PUT of the cluster's own credential does, which also says the level otherwise.
func TestARepairOfIsolationWasNeverEnough(t *testing.T) {
	await.InVirtualTime(t, func(t *testing.T) {
		r, p, _ := newIsolated(t)
		before := r.mirror.Revision()
		vandal := `{"name":"grayify","image":"example.org/vandal","script":"s","owner":"` + bob + `","isolation_level":"user","allowed_users":["` + carol + `"],` +
			`"bucket_list":["` + carolOwn + `"],"input":[{"storage_provider":"minio.default","path":"grayify/in"}]}`
		r.ask(http.MethodPut, "/system/services", vandal)
		r.repairedOnce(p, before)
	})
}
