package controlplane

import (
	"strings"
	"testing"

	"github.com/oscarfed/oscarfed/store/record"
)

func TestDecideRemoval(t *testing.T) {
	t.Parallel()
	plain, force := &record.Removal{}, &record.Removal{Force: true}
	for name, tt := range map[string]struct {
		sit  clusterSituation
		want string // unregister, "blocked: ..." or "waits: ..."
	}{
		"nobody ordered it":              {clusterSituation{}, "waits: "},
		"nothing there":                  {clusterSituation{reg: record.Cluster{Removal: plain}}, "unregister"},
		"nothing there, by force":        {clusterSituation{reg: record.Cluster{Removal: force}}, "unregister"},
		"a coordinator":                  {clusterSituation{reg: record.Cluster{Removal: plain}, alive: true, coordinated: []string{"ann/g"}, members: 1, records: 1}, "blocked: the coordinators of ann/g"},
		"a coordinator, by force":        {clusterSituation{reg: record.Cluster{Removal: force}, coordinated: []string{"ann/g"}, members: 1, records: 1}, "waits: 1 federations have not left"},
		"members":                        {clusterSituation{reg: record.Cluster{Removal: plain}, alive: true, members: 2, records: 2}, "waits: 2 federations have not left"},
		"tombstones":                     {clusterSituation{reg: record.Cluster{Removal: plain}, alive: true, leaving: 2, records: 2}, "waits: it has not acknowledged 2"},
		"tombstones, away":               {clusterSituation{reg: record.Cluster{ClusterID: "b", Removal: plain}, leaving: 2, records: 2}, `blocked: cluster "b" is away`},
		"tombstones, by force":           {clusterSituation{reg: record.Cluster{Removal: force}, records: 2}, "unregister"},
		"a token to revoke":              {clusterSituation{reg: record.Cluster{Removal: plain}, alive: true, tokens: 1}, "waits: it has not deleted 1 refresh tokens"},
		"a token to revoke, away":        {clusterSituation{reg: record.Cluster{ClusterID: "b", Removal: plain}, tokens: 1}, `blocked: cluster "b" is away and holds 1`},
		"a token to revoke, by force":    {clusterSituation{reg: record.Cluster{Removal: force}, tokens: 1}, "unregister"},
		"tombstones of others, forced":   {clusterSituation{reg: record.Cluster{Removal: force}, leaving: 1, records: 2}, "waits: 1 federations"},
		"a creation in flight, by force": {clusterSituation{reg: record.Cluster{Removal: force}, members: 1, records: 1}, "waits: 1 federations"},
	} {
		d := decideRemoval(tt.sit)
		got := "waits: " + d.waits
		switch {
		case d.unregister:
			got = "unregister"
		case d.blocked:
			got = "blocked: " + d.waits
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
	situationOf := func(phase record.Phase, removing map[string]*record.Removal, change *record.Change) situation {
		s := situation{fed: record.Federation{UID: "f", Phase: phase, Members: members, Change: change}, removing: removing}
		for i, m := range members {
			s.replicas = append(s.replicas, replicaState{at: m, member: i, desired: &record.Desired{UID: m.UID, Intent: record.IntentApply}})
		}
		return s
	}
	a, b := map[string]*record.Removal{"a": {}}, map[string]*record.Removal{"b": {}}
	forced := map[string]*record.Removal{"a": {Force: true, Orphan: true}}
	for name, tt := range map[string]struct {
		s    situation
		want string
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
		if d.name != tt.want {
			t.Errorf("%s: %q, want %q", name, d.name, tt.want)
		}
		if d.name != "disband" {
			continue
		}
		for _, p := range d.put {
			if kept := p.rec.Keep == record.KeepRelease; kept != (p.cluster == "a") {
				t.Errorf("%s: %s is kept: %v", name, p.cluster, kept)
			}
		}
	}
}
