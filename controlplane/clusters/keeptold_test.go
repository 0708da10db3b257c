package clusters

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/oscarfed/oscarfed/controlplane/view"
	"github.com/oscarfed/oscarfed/store/record"
)

func TestWhatAnOrderKeepsOfAReport(t *testing.T) {
	t.Parallel()
	volume := &record.Volume{Name: "v", Deletable: true}
	removal := record.Desired{UID: "u", Intent: record.IntentDelete, Data: record.DataDelete}
	end := &record.End{
		BucketsMade: []string{"b"}, BucketFates: []record.BucketFate{{Bucket: "b", Fate: record.BucketKept}},
		VolumeFate: &record.VolumeFate{Volume: "v", Fate: record.BucketDeleted}, SecretLeft: true, Operation: record.OperationDelete, Message: "m",
	}
	ended := record.Observed{
		Phase: record.PhaseDeleted, DesiredRevision: 5, BucketsMade: end.BucketsMade, BucketFates: end.BucketFates, VolumeFate: end.VolumeFate,
		SecretLeft: true, Operation: end.Operation, Message: end.Message, ReadBack: "hash", Volume: volume,
	}
	with := func(d record.Desired, told record.Told) record.Desired { d.Told = &told; return d }
	for name, tt := range map[string]struct {
		d    record.Desired
		o    record.Observed
		want *record.Told
	}{
		"nothing":                {removal, record.Observed{}, nil},
		"of another life":        {removal, record.Observed{UID: "other", Volume: volume}, nil},
		"what is to be deleted":  {removal, record.Observed{BucketsMade: []string{"b"}, Volume: volume}, &record.Told{BucketsMade: []string{"b"}, Volume: volume}},
		"to be kept":             {record.Desired{UID: "u", Intent: record.IntentDelete}, record.Observed{BucketsMade: []string{"b"}, Volume: volume}, nil},
		"what a POST has left":   {record.Desired{UID: "u", Intent: record.IntentApply}, record.Observed{Bare: "sealed"}, &record.Told{Bare: "sealed"}},
		"of a second revocation": {with(removal, record.Told{BucketsMade: []string{"b"}, Bare: "sealed"}), record.Observed{Volume: volume}, &record.Told{BucketsMade: []string{"b"}, Volume: volume, Bare: "sealed"}},
		"left, and in place": {
			with(record.Desired{UID: "u", Intent: record.IntentApply}, record.Told{Bare: "sealed"}), record.Observed{ReadBack: "hash", ObservedGeneration: 3}, &record.Told{Applied: 3},
		},
		"not in place since": {with(record.Desired{UID: "u", Intent: record.IntentApply}, record.Told{Applied: 3}), record.Observed{}, &record.Told{Applied: 3}},
		"too much":           {removal, record.Observed{BucketsMade: []string{strings.Repeat("b", maxTold)}}, nil},
		"the end":            {removal, ended, &record.Told{End: end}},
		"the end of an earlier order": {
			record.Desired{UID: "u", Intent: record.IntentDelete, Generation: 1}, ended, nil,
		},
		"the end, and what was kept before":     {with(removal, record.Told{BucketsMade: []string{"b"}, Volume: volume, Bare: "sealed"}), ended, &record.Told{End: end}},
		"the end, and a second one after it":    {with(removal, record.Told{End: end}), record.Observed{Phase: record.PhaseDeleted, DesiredRevision: 5}, &record.Told{End: end}},
		"the end, which left more than is kept": {removal, record.Observed{Phase: record.PhaseDeleted, DesiredRevision: 5, BucketsMade: []string{strings.Repeat("b", maxTold)}}, nil},
	} {
		if tt.o.UID == "" {
			tt.o.UID = "u"
		}
		if diff := cmp.Diff(tt.want, toldOf(view.Versioned[record.Desired]{Rec: &tt.d, Rev: 5}, &tt.o)); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}
