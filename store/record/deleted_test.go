package record

import (
	"reflect"
	"testing"
)

// What a service has that was given free is its own; a Secret that is left is nobody's.
func TestWhatIsRememberedOfAnEnd(t *testing.T) {
	report := &Observed{BucketsMade: []string{"b"}, BucketFates: []BucketFate{{Bucket: "b"}}, VolumeFate: &VolumeFate{Volume: "v"}, SecretLeft: true}
	for keep, want := range map[string]Deleted{
		"":          {BucketsLeft: report.BucketsMade, BucketFates: report.BucketFates, VolumeFate: report.VolumeFate, SecretLeft: true},
		KeepRelease: {SecretLeft: true},
	} {
		var got Deleted
		if got.Remember(report, keep); !reflect.DeepEqual(got, want) {
			t.Errorf("keep %q: %+v", keep, got)
		}
	}
}
