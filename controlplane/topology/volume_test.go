package topology

import (
	"strings"
	"testing"
)

// OSCAR deletes a volume with its service, and one that its creation finds in its way,
// unless it is told not to: an older syncer sends what it is given.
func TestRenderRetainsTheVolume(t *testing.T) {
	for _, tc := range []struct {
		volume, want string
		goes         bool
	}{
		{`{"size":"1Gi","mount_path":"/d"}`, `"volume":{"size":"1Gi","mount_path":"/d","lifecycle_policy":"retain"}`, true},
		{`{"size":"1Gi","mount_path":"/d","lifecycle_policy":"delete"}`, `"volume":{"size":"1Gi","mount_path":"/d","lifecycle_policy":"retain"}`, true},
		{`{"size":"1Gi","mount_path":"/d","lifecycle_policy":"retain"}`, `"volume":{"size":"1Gi","mount_path":"/d","lifecycle_policy":"retain"}`, false},
		{`{"name":"v","mount_path":"/d"}`, `"volume":{"name":"v","mount_path":"/d"}`, false},
	} {
		s := parse(t, `{"name":"svc","cluster_id":"a","image":"i","script":"s","volume":`+tc.volume+`}`)
		if public, _ := render(t, s, graphOf(t, s, Env{}), 0); !strings.Contains(public, tc.want) {
			t.Errorf("%s is sent as %s", tc.volume, public)
		}
		if got := VolumeGoes(s); got != tc.goes {
			t.Errorf("%s goes when that is ordered: %v", tc.volume, got)
		}
	}
}

func TestSameVolume(t *testing.T) {
	for _, tc := range []struct {
		a, b string
		same bool
	}{
		{`null`, `null`, true},
		{`null`, `{"name":"v","mount_path":"/d"}`, false},
		{`{"size":"1Gi","mount_path":"/d"}`, `{"name":"svc","size":"1Gi","mount_path":" /d","lifecycle_policy":"delete"}`, true},
		{`{"size":"1Gi","mount_path":"/d"}`, `{"size":"1Gi","mount_path":"/d","lifecycle_policy":"retain"}`, false},
		{`{"size":"1Gi","mount_path":"/d"}`, `{"size":"2Gi","mount_path":"/d"}`, false},
		{`{"size":"1Gi","mount_path":"/d"}`, `{"size":"1Gi","mount_path":"/e"}`, false},
		{`{"name":"svc","mount_path":"/d"}`, `{"size":"1Gi","mount_path":"/d"}`, false},
	} {
		one := parse(t, `{"name":"svc","image":"i","script":"s","volume":`+tc.a+`}`)
		other := parse(t, `{"name":"svc","image":"i","script":"s","volume":`+tc.b+`}`)
		if SameVolume(one, other) != tc.same || SameVolume(other, one) != tc.same {
			t.Errorf("%s and %s: %v", tc.a, tc.b, !tc.same)
		}
	}
}
