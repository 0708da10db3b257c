package clusters

import (
	"testing"

	"github.com/oscarfed/oscarfed/store/access"
	"github.com/oscarfed/oscarfed/store/record"
)

func TestDecideStanding(t *testing.T) {
	life := access.Life{Cluster: "c", UID: "this"}
	reg := func(uid string) *record.Cluster { return &record.Cluster{ClusterID: "c", UID: uid} }
	told := func(uid string, state record.ClusterState) *record.DesiredCluster {
		return &record.DesiredCluster{ClusterID: "c", UID: uid, State: state}
	}
	for name, c := range map[string]struct {
		reg  *record.Cluster
		told *record.DesiredCluster
		want access.Standing
	}{
		"registered":                       {reg("this"), told("this", record.ClusterActive), access.Admitted},
		"registered, and revoked":          {&record.Cluster{UID: "this", Revoked: &record.Revocation{}}, told("this", record.ClusterRevoked), access.Gone},
		"removed, and revoked":             {nil, &record.DesiredCluster{UID: "this", State: record.ClusterRemoved, Revoked: &record.Revocation{}}, access.Gone},
		"being removed":                    {reg("this"), told("this", record.ClusterRemoving), access.Admitted},
		"removed, with orders":             {nil, told("this", record.ClusterRemoved), access.Retired},
		"removed, nothing left":            {nil, nil, access.Gone},
		"another is registered":            {reg("next"), told("next", record.ClusterActive), access.Gone},
		"another was removed since":        {nil, told("next", record.ClusterRemoved), access.Gone},
		"told, but neither of them is so":  {nil, told("this", record.ClusterActive), access.Gone},
		"another is registered, told late": {reg("next"), told("this", record.ClusterRemoved), access.Gone},
	} {
		if got := decideStanding(life, c.reg, c.told); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}
