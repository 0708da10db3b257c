package syncer_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/oscarfed/oscarfed/internal/oscarsim"
	"github.com/oscarfed/oscarfed/store/record"
	"github.com/oscarfed/oscarfed/test/await"
)

// elsewhere gives a replica an output in a store that is not the cluster's own MinIO.
func (p *replica) elsewhere(path string) {
	p.extra = map[string]any{
		"output":            []any{map[string]any{"storage_provider": "s3.far", "path": path}},
		"storage_providers": map[string]any{"s3": map[string]any{"far": map[string]any{"region": "eu"}}},
	}
}

// TestAnOutputElsewhereIsNoBucketOfTheCluster: when a POST fails at a store elsewhere, OSCAR empties and deletes the
// bucket of that name in the cluster's own MinIO.
func TestAnOutputElsewhereIsNoBucketOfTheCluster(t *testing.T) {
	await.InVirtualTime(t, func(t *testing.T) {
		r := newRig(t, oscarsim.Config{})
		r.start()
		p := newReplica("grayify")
		p.elsewhere("canary-bucket/out")
		r.want(p, record.IntentPrepare)
		o := r.await(p, record.PhaseRefused, because(record.ReasonForeignBucket))
		if o.Message == "" {
			t.Error("no message")
		}
		// So it is where the bucket came after the vote.
		p = newReplica("grayifyb")
		p.elsewhere("late-bucket/out")
		r.want(p, record.IntentPrepare)
		r.await(p, record.PhasePrepared)
		r.sim.PutBucket("late-bucket", "precious/a")
		r.watchBucket("late-bucket")
		r.want(p, record.IntentApply)
		r.await(p, record.PhaseFailed, because(record.ReasonForeignBucket))
		r.equalCalls(p.name)
	})
}

// TestAnOutputElsewhere is in a bucket that stands there, as it does for each replica but the first: OSCAR refuses the
// POST that names it, and no PUT.
func TestAnOutputElsewhere(t *testing.T) {
	for what, path := range map[string]string{"with a bucket": "far-bucket/out", "without": "out"} {
		for _, coordinator := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s, coordinator %v", what, coordinator), func(t *testing.T) {
				await.InVirtualTime(t, func(t *testing.T) {
					r := newRig(t, oscarsim.Config{})
					r.start()
					p := newReplica("grayify")
					p.coordinator = coordinator
					p.elsewhere(path)
					o := r.makeReady(p)
					if !slices.Equal(o.BucketsMade, []string{"grayify"}) {
						t.Errorf("%s: it made %v", what, o.BucketsMade)
					}
					if b, _ := r.sim.Bucket("grayify"); b.Tags["from_service"] != "grayify" {
						t.Errorf("%s: the bucket of the input has the tags %v", what, b.Tags)
					}
					r.equalCalls(p.name, "create", "update")
					r.resynced()
					r.equalCalls(p.name, "create", "update")
				})
			})
		}
	}
}
