package offers

import (
	"testing"

	"github.com/oscarfed/oscarfed/syncer/kube"
)

// What Kubernetes refused of a Job is forgotten with the Job: also of one that ends first, and when the
// refusal comes after the end.
func TestRefusalsEndWithTheirJobs(t *testing.T) {
	key := kube.JobKey{Namespace: "n", Name: "j"}
	running, ended := &kube.Job{UID: "u"}, &kube.Job{UID: "u", Ended: true}
	for name, after := range map[string][]*kube.Job{
		"it is deleted":           {nil},
		"it ends, and is deleted": {ended, nil},
		"another takes its name":  {{UID: "u2"}},
	} {
		s := newSeenJobs()
		s.note(key, running)
		s.refuse(key, "u", "no")
		if s.refusal("u") != "no" {
			t.Errorf("%s: nothing was noted", name)
		}
		for _, job := range after {
			s.note(key, job)
		}
		s.refuse(key, "u", "no")
		if len(s.refusals) > 0 {
			t.Errorf("%s: %v stay", name, s.refusals)
		}
	}
}
