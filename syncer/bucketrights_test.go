package syncer_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/oscarfed/oscarfed/api/oscar"
	"github.com/oscarfed/oscarfed/store/record"
	"github.com/oscarfed/oscarfed/test/await"
)

// TestTheNextBucketOfANameWasOpenToTheOneBefore: OSCAR takes a bucket from the policies of MinIO only when its owner
// deletes it, and what they give is by name.
func TestTheNextBucketOfANameWasOpenToTheOneBefore(t *testing.T) {
	const name = "grayify"
	public := map[string]any{"visibility": "public"}
	for _, tc := range []struct {
		what        string
		owner       string
		extra, then map[string]any
		rights      string
	}{
		{"private", alice, nil, nil, alice},
		{"public", alice, public, nil, "all_users_group"},
		{"public by a change", alice, nil, public, "all_users_group"},
		{"restricted", alice, map[string]any{"visibility": "restricted", "allowed_users": []string{carol}}, nil, alice + "," + name},
		{"restricted to nobody", alice, map[string]any{"visibility": "restricted", "allowed_users": []string{}}, nil, alice + "," + name},
		{"the administrator's, public by a change", oscar.OwnerAdmin, nil, public, "all_users_group"},
	} {
		t.Run(tc.what, func(t *testing.T) {
			await.InVirtualTime(t, func(t *testing.T) {
				r, p, i := newUser(t)
				r.serviceOf(carol, "of-carol", "of-carol") // so that MinIO knows her
				p.owner, p.extra = tc.owner, tc.extra
				r.deliver(i.Token(alice, nil), inAnHour())
				r.start()
				r.makeReady(p)
				if tc.then != nil {
					p.generation, p.extra = 2, tc.then
					r.want(p, record.IntentApply)
					r.await(p, record.PhaseReady)
				}
				if got := strings.Join(r.sim.Policies(name), ","); got != tc.rights {
					t.Fatalf("its bucket is in the policies %s", got)
				}
				r.want(p, record.IntentDelete, func(d *record.Desired) { d.Data = record.DataDelete })
				if got := fatesOf(r.await(p, record.PhaseDeleted)); got != name+" deleted" {
					t.Errorf("told: %s", got)
				}
				r.serviceOf(bob, "of-bob", name)
				got := r.sim.Policies(name)
				if tc.what == "restricted to nobody" {
					// OSCAR cannot delete the policy of its group, which is gone.
					got = slices.DeleteFunc(got, func(policy string) bool { return policy == name })
				}
				got = slices.DeleteFunc(got, func(policy string) bool { return policy == "oscar" }) // a user that MinIO does not know
				if !slices.Equal(got, []string{bob}) {
					t.Errorf("bob's bucket is in the policies %v", got)
				}
			})
		})
	}
}

// TestAChangeGaveAUserWhatHeMounted: to the cluster's credential OSCAR gives each bucket without an owner, and those of
// its administrator.
func TestAChangeGaveAUserWhatHeMounted(t *testing.T) {
	for _, tc := range []struct {
		what string
		tags map[string]string
		ok   bool
	}{
		{"nobody's", nil, false},
		{"the administrator's", map[string]string{"owner": "oscar", "owner_name": "oscar"}, false},
		{"his", map[string]string{"owner": alice, "owner_name": "alice"}, true},
	} {
		t.Run(tc.what, func(t *testing.T) {
			await.InVirtualTime(t, func(t *testing.T) {
				r, p, i := newUser(t)
				if tc.ok {
					r.serviceOf(alice, "of-alice", "my-data")
				}
				r.sim.PutBucket("my-data", "a")
				r.sim.TagBucket("my-data", tc.tags)
				r.canaries = nil // of the bucket as it was at first
				r.deliver(i.Token(alice, nil), inAnHour())
				r.start()
				r.makeReady(p)
				p.generation, p.extra = 2, map[string]any{"mount": map[string]any{"storage_provider": "minio.default", "path": "my-data"}}
				r.want(p, record.IntentApply)
				if tc.ok {
					r.await(p, record.PhaseReady)
					return
				}
				r.await(p, record.PhaseFailed, because(record.ReasonForeignBucket))
				if got := r.sim.Policies("my-data"); len(got) > 0 {
					t.Errorf("it is in the policies %v", got)
				}
			})
		})
	}
}

// TestABucketGoesWithoutItsOwnersToken: its data is gone as ordered, and nobody else has rights on its name.
func TestABucketGoesWithoutItsOwnersToken(t *testing.T) {
	for what, away := range map[string]func(r *rig){
		"there is none":                      (*rig).forgetToken,
		"OSCAR does not let him in any more": func(r *rig) { r.sim.Deny(alice, true) },
	} {
		t.Run(what, func(t *testing.T) {
			await.InVirtualTime(t, func(t *testing.T) {
				r, p, i := newUser(t)
				p.extra = map[string]any{"visibility": "public"}
				r.deliver(i.Token(alice, nil), inAnHour())
				r.start()
				r.makeReady(p)
				away(r)
				r.want(p, record.IntentDelete, func(d *record.Desired) { d.Data = record.DataDelete })
				if got := fatesOf(r.await(p, record.PhaseDeleted)); got != p.name+" deleted" {
					t.Errorf("told: %s", got)
				}
				if got := r.sim.Policies(p.name); slices.Contains(got, "all_users_group") {
					t.Errorf("the bucket that is gone is in the policies %v", got)
				}
			})
		})
	}
}
