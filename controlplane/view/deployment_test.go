package view

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/oscarfed/oscarfed/store/record"
)

func TestHowAFederationStandsInOscarsWords(t *testing.T) {
	at := time.Date(2026, 11, 21, 20, 0, 0, 0, time.UTC)
	member := func(i int, phase record.Phase) Replica {
		return Replica{
			ClusterID: string(rune('a' + i)), ServiceName: "svc", Coordinator: i == 0,
			Status: &Status{Phase: phase, Reason: "R", Message: "m", LastTransitionTime: at.Add(time.Duration(i) * time.Second)},
		}
	}
	why := func(i int, phase record.Phase) string {
		return string(rune('a'+i)) + "/svc: " + string(phase) + " (R): m"
	}
	const r = record.PhaseReady
	for _, tc := range []struct {
		phases []record.Phase
		self   int
		want   Deployment
	}{
		{[]record.Phase{r}, 0, Deployment{State: "ready", Ready: 1}},
		{[]record.Phase{r, r, r}, 0, Deployment{State: "ready", Ready: 3}},
		{[]record.Phase{r, record.PhaseUnreachable, record.PhaseFailed}, 0, Deployment{State: "degraded", Reason: why(1, record.PhaseUnreachable), Ready: 1, Others: 2}},
		{[]record.Phase{record.PhasePending, record.PhaseFailed}, 0, Deployment{State: "failed", Reason: why(0, record.PhasePending), Others: 2}},
		{[]record.Phase{record.PhaseUnreachable, record.PhaseApplying}, 0, Deployment{State: "pending", Reason: why(0, record.PhaseUnreachable), Others: 2}},
		{[]record.Phase{record.PhaseUnreachable, record.PhaseUnreachable}, 0, Deployment{State: "unavailable", Reason: why(0, record.PhaseUnreachable), Others: 2}},
		{[]record.Phase{record.PhaseDrifted, record.PhaseFailed}, 0, Deployment{State: "degraded", Reason: why(0, record.PhaseDrifted), Others: 2}},
		{[]record.Phase{record.PhaseHeld}, 0, Deployment{State: "degraded", Reason: why(0, record.PhaseHeld), Others: 1}},
		{[]record.Phase{record.PhaseWedged}, 0, Deployment{State: "failed", Reason: why(0, record.PhaseWedged), Others: 1}},
		{[]record.Phase{r, record.PhaseRefused}, 1, Deployment{State: "failed", Reason: why(1, record.PhaseRefused), Others: 1}},
		{[]record.Phase{record.PhaseFailed, r}, 1, Deployment{State: "ready", Ready: 1}},
	} {
		var members []Replica
		for i, phase := range tc.phases {
			members = append(members, member(i, phase))
		}
		tc.want.LastTransitionTime = members[tc.self].Status.LastTransitionTime
		if tc.self == 0 {
			tc.want.LastTransitionTime = members[len(members)-1].Status.LastTransitionTime
		}
		members = append(members, Replica{Type: "endpoint", URL: "https://example.org"})
		if diff := cmp.Diff(tc.want, DeploymentOf(members, tc.self)); diff != "" {
			t.Errorf("%v, seen from %d (-want +got):\n%s", tc.phases, tc.self, diff)
		}
	}
}
