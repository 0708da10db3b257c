package tokens

import (
	"slices"
	"testing"

	"github.com/oscarfed/oscarfed/controlplane/view"
	"github.com/oscarfed/oscarfed/store/record"
)

func TestClustersWithVolume(t *testing.T) {
	t.Parallel()
	goes, stays := &record.Volume{Deletable: true}, &record.Volume{}
	at := func(cluster string, d *record.Desired, o *record.Observed) view.ReplicaState {
		return view.ReplicaState{At: record.Member{ClusterID: cluster}, Desired: d, Observed: o}
	}
	got := ClustersWithVolume(view.Situation{Replicas: []view.ReplicaState{
		at("none", nil, nil), at("reported", &record.Desired{}, &record.Observed{Volume: goes}), at("retained", &record.Desired{}, &record.Observed{Volume: stays}),
	}, Leaving: []view.ReplicaState{
		at("readmitted", &record.Desired{Told: &record.Told{Volume: goes}}, nil), at("never reported", &record.Desired{}, nil),
	}})
	if !slices.Equal(got, []string{"reported", "readmitted"}) {
		t.Errorf("%v", got)
	}
}
