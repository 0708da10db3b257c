package clusters

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/oscarfed/oscarfed/api/oscar"
	"github.com/oscarfed/oscarfed/store/record"
)

func TestWhatAnOrderKeepsOfAReport(t *testing.T) {
	t.Parallel()
	volume := &record.Volume{Name: "v", Deletable: true}
	removal := record.Desired{UID: "u", Intent: record.IntentDelete, Data: record.DataDelete}
	with := func(d record.Desired, told record.Told) record.Desired { d.Told = &told; return d }
	for name, tt := range map[string]struct {
		d    record.Desired
		o    record.Observed
		want *record.Told
	}{
		"nothing":                {removal, record.Observed{}, nil},
		"of another life":        {removal, record.Observed{UID: "other", Volume: volume}, nil},
		"what is to be deleted":  {removal, record.Observed{BucketsMade: []string{"b"}, Volume: volume}, &record.Told{BucketsMade: []string{"b"}, Volume: volume}},
		"deleted":                {removal, record.Observed{Phase: record.PhaseDeleted, BucketsMade: []string{"b"}, Volume: volume}, nil},
		"to be kept":             {record.Desired{UID: "u", Intent: record.IntentDelete}, record.Observed{BucketsMade: []string{"b"}, Volume: volume}, nil},
		"what a POST has left":   {record.Desired{UID: "u", Intent: record.IntentApply}, record.Observed{Bare: "sealed"}, &record.Told{Bare: "sealed"}},
		"of a second revocation": {with(removal, record.Told{BucketsMade: []string{"b"}, Bare: "sealed"}), record.Observed{Volume: volume}, &record.Told{BucketsMade: []string{"b"}, Volume: volume, Bare: "sealed"}},
		"left, and in place":     {with(record.Desired{UID: "u", Intent: record.IntentApply}, record.Told{Bare: "sealed"}), record.Observed{ReadBack: "hash"}, nil},
		"where drift is reported": {
			record.Desired{UID: "u", Intent: record.IntentApply, Drift: oscar.DriftReport}, record.Observed{ReadBack: "hash", ObservedGeneration: 3}, &record.Told{Applied: 3},
		},
		"too much": {removal, record.Observed{BucketsMade: []string{strings.Repeat("b", maxTold)}}, nil},
	} {
		if tt.o.UID == "" {
			tt.o.UID = "u"
		}
		if diff := cmp.Diff(tt.want, toldOf(&tt.d, &tt.o)); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}
