package view

import (
	"testing"

	"github.com/oscarfed/oscarfed/store"
	"github.com/oscarfed/oscarfed/store/record"
)

// A job that is listed is found under its id.
func TestARecordThatNamesAnotherJobIsNone(t *testing.T) {
	t.Parallel()
	v := newView()
	v.news = newChanges()
	for id, named := range map[string]string{"\xff": "\xff", "one": "other", "own": "own"} {
		raw, err := record.Encode(record.Job{V: 1, Job: named, State: record.JobAssigned, Place: &record.Place{ClusterID: "c"}})
		if err != nil {
			t.Fatal(err)
		}
		v.apply(record.JobKey(id), store.KV{Key: record.JobKey(id), Value: raw, ModRevision: 7}, true)
	}
	if len(v.news.Corrupt) != 2 {
		t.Errorf("it says %v", v.news.Corrupt)
	}
	for id := range v.Jobs.ByCluster.Of("c").IDs() {
		if v.Jobs.ByID.Get(id).Rec == nil {
			t.Errorf("job %q is listed, and not there", id)
		}
	}
	if !v.Jobs.ByID.Has("own") {
		t.Error("a job is missing")
	}
}
