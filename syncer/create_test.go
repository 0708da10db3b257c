package syncer_test

import (
	"testing"

	"github.com/oscarfed/oscarfed/internal/oscarsim"
	"github.com/oscarfed/oscarfed/store/record"
)

func TestCreateAndDelete(t *testing.T) {
	r := newRig(t, oscarsim.Config{})
	r.start()
	p := newReplica("grayify")
	r.want(p, record.IntentPrepare)
	if o := r.await(p, record.PhasePrepared); o.Vote == nil || o.Vote.Answer != record.VoteYes || o.Vote.Revision != p.revision {
		t.Fatalf("vote: %+v", o.Vote)
	}
	r.want(p, record.IntentApply)
	o := r.await(p, record.PhaseReady)
	if o.ReadBack == "" || len(o.BucketsMade) != 1 {
		t.Errorf("report: %+v", o)
	}
	r.sim.PutBucket("grayify", "in/mine")
	r.want(p, record.IntentDelete)
	r.await(p, record.PhaseDeleted)
	if b, ok := r.sim.Bucket("grayify"); !ok || len(b.Objects) == 0 {
		t.Errorf("the user's data is gone: %+v", b)
	}
	r.equalCalls("grayify", "create", "update", "delete")
}
