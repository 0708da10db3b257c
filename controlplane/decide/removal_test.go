package decide

import (
	"strings"
	"testing"

	"github.com/oscarfed/oscarfed/controlplane/view"
	"github.com/oscarfed/oscarfed/store/record"
)

func TestDecideRemoval(t *testing.T) {
	t.Parallel()
	plain, force := &record.Removal{}, &record.Removal{Force: true}
	for name, tt := range map[string]struct {
		sit  ClusterSituation
		want string // unregister, "blocked: ..." or "waits: ..."
	}{
		"nobody ordered it":              {ClusterSituation{}, "waits: "},
		"nothing there":                  {ClusterSituation{reg: record.Cluster{Removal: plain}}, "unregister"},
		"nothing there, by force":        {ClusterSituation{reg: record.Cluster{Removal: force}}, "unregister"},
		"a coordinator":                  {ClusterSituation{reg: record.Cluster{Removal: plain}, alive: true, coordinated: []string{"ann/g"}, Members: 1, Records: 1}, "blocked: the coordinators of ann/g"},
		"a coordinator, by force":        {ClusterSituation{reg: record.Cluster{Removal: force}, coordinated: []string{"ann/g"}, Members: 1, Records: 1}, "waits: 1 federations have not left"},
		"members":                        {ClusterSituation{reg: record.Cluster{Removal: plain}, alive: true, Members: 2, Records: 2}, "waits: 2 federations have not left"},
		"tombstones":                     {ClusterSituation{reg: record.Cluster{Removal: plain}, alive: true, Leaving: 2, Records: 2}, "waits: it has not acknowledged 2"},
		"tombstones, away":               {ClusterSituation{reg: record.Cluster{ClusterID: "b", Removal: plain}, Leaving: 2, Records: 2}, `blocked: cluster "b" is away`},
		"tombstones, by force":           {ClusterSituation{reg: record.Cluster{Removal: force}, Records: 2}, "unregister"},
		"a token to revoke":              {ClusterSituation{reg: record.Cluster{Removal: plain}, alive: true, tokens: 1}, "waits: it has not deleted 1 refresh tokens"},
		"a token to revoke, away":        {ClusterSituation{reg: record.Cluster{ClusterID: "b", Removal: plain}, tokens: 1}, `blocked: cluster "b" is away and holds 1`},
		"a token to revoke, by force":    {ClusterSituation{reg: record.Cluster{Removal: force}, tokens: 1}, "unregister"},
		"tombstones of others, forced":   {ClusterSituation{reg: record.Cluster{Removal: force}, Leaving: 1, Records: 2}, "waits: 1 federations"},
		"a creation in flight, by force": {ClusterSituation{reg: record.Cluster{Removal: force}, Members: 1, Records: 1}, "waits: 1 federations"},
	} {
		d := Removal(tt.sit)
		got := "waits: " + d.Waits
		switch {
		case d.Unregister:
			got = "unregister"
		case d.Blocked:
			got = "blocked: " + d.Waits
		}
		if !strings.HasPrefix(got, tt.want) {
			t.Errorf("%s: %s, want %s", name, got, tt.want)
		}
	}
}

func TestEvacuationTakesNoCoordinatorAway(t *testing.T) {
	t.Parallel()
	members := []record.Member{
		{ClusterID: "a", ServiceName: "s0", UID: "u0", Coordinator: true}, {ClusterID: "b", ServiceName: "s1", UID: "u1"},
	}
	situationOf := func(phase record.Phase, removing map[string]*record.Removal, change *record.Change) view.Situation {
		s := view.Situation{Fed: record.Federation{UID: "f", Phase: phase, Members: members, Change: change}, Removing: removing}
		for i, m := range members {
			s.Replicas = append(s.Replicas, view.ReplicaState{At: m, Member: i, Desired: &record.Desired{UID: m.UID, Intent: record.IntentApply}})
		}
		return s
	}
	a, b := map[string]*record.Removal{"a": {}}, map[string]*record.Removal{"b": {}}
	forced := map[string]*record.Removal{"a": {Force: true, Orphan: true}}
	for name, tt := range map[string]struct {
		s    view.Situation
		want Step
	}{
		"none removed":              {situationOf(record.PhaseReady, nil, nil), ""},
		"preparing":                 {situationOf(record.PhasePreparing, b, nil), "abort"},
		"applying":                  {situationOf(record.PhaseApplying, b, nil), "roll_back"},
		"rolling back":              {situationOf(record.PhaseRollingBack, b, nil), ""},
		"deleting":                  {situationOf(record.PhaseDeleting, b, nil), ""},
		"ready":                     {situationOf(record.PhaseReady, b, nil), "leave"},
		"a change under way":        {situationOf(record.PhaseReady, b, &record.Change{Members: members}), ""},
		"the coordinator":           {situationOf(record.PhaseReady, a, nil), ""},
		"the coordinator, by force": {situationOf(record.PhaseReady, forced, nil), "disband"},
	} {
		d := decideEvacuation(tt.s)
		if d.Step != tt.want {
			t.Errorf("%s: %q, want %q", name, d.Step, tt.want)
		}
		if d.Step != "disband" {
			continue
		}
		for _, p := range d.Put {
			if kept := p.Rec.Keep == record.KeepRelease; kept != (p.Cluster == "a") {
				t.Errorf("%s: %s is kept: %v", name, p.Cluster, kept)
			}
		}
	}
}
