package view

import (
	"slices"
	"testing"
	"time"

	"github.com/oscarfed/oscarfed/store"
	"github.com/oscarfed/oscarfed/store/record"
)

// TestAReadmissionIsSeenByAnInstanceThatLags, which has seen neither the revocation nor that it was over.
func TestAReadmissionIsSeenByAnInstanceThatLags(t *testing.T) {
	began := time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC)
	revoked := &record.Revocation{Message: "it wrote too much"}
	reg := func(uid string, r *record.Revocation, readmitted time.Duration) *record.Cluster {
		c := &record.Cluster{V: record.Version, ClusterID: "c", UID: uid, State: record.ClusterActive, Revoked: r}
		if readmitted > 0 {
			c.ReadmittedAt = new(record.At(began.Add(readmitted)))
		}
		return c
	}
	for name, c := range map[string]struct {
		was, is *record.Cluster
		want    bool
	}{
		"registered":                        {nil, reg("one", nil, 0), true},
		"another one is registered":         {reg("one", nil, 0), reg("two", nil, 0), true},
		"changed":                           {reg("one", nil, 0), reg("one", nil, 0), false},
		"revoked":                           {reg("one", nil, 0), reg("one", revoked, 0), false},
		"readmitted":                        {reg("one", revoked, 0), reg("one", nil, time.Hour), true},
		"readmitted by an older version":    {reg("one", revoked, 0), reg("one", nil, 0), true},
		"revoked and readmitted":            {reg("one", nil, 0), reg("one", nil, time.Hour), true},
		"so, for the second time":           {reg("one", nil, time.Hour), reg("one", nil, 2*time.Hour), true},
		"changed after its readmission":     {reg("one", nil, time.Hour), reg("one", nil, time.Hour), false},
		"readmitted and revoked once more":  {reg("one", revoked, 0), reg("one", revoked, time.Hour), true},
		"revoked again, and seen as it was": {reg("one", nil, time.Hour), reg("one", revoked, time.Hour), false},
	} {
		v := newView()
		apply := func(c *record.Cluster) {
			raw, err := record.Encode(c)
			if err != nil {
				t.Fatal(err)
			}
			v.news = newChanges()
			v.apply(record.ClusterKey("c"), store.KV{Key: record.ClusterKey("c"), Value: raw}, true)
		}
		if c.was != nil {
			apply(c.was)
		}
		apply(c.is)
		if got := slices.Contains(v.news.Forgiven, "c"); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}
