package deploy_test

import (
	"io"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"

	"github.com/oscarfed/oscarfed/internal/boot"
)

// A large etcd on a slow disk gets the time that it needs: for its start, and for a backup, of which three tries fit into the
// time of their Job.
func TestTimesOfLargeDatabasesCanBeSet(t *testing.T) {
	seeCharts(t)
	helm := tool(t, "helm")
	for set, want := range map[string][3]int{
		"backup.schedule=@hourly": {5, 10, 10},
		"startupMinutes=60,etcd.cluster.startupMinutes=90,backup.timeoutMinutes=120": {60, 90, 120},
	} {
		m := render(t, helm, "testdata/values/oscarfed-cluster.yaml", release, namespace, "--set", set)
		seen := map[string]bool{}
		for _, w := range workloads(t, m) {
			c := w.pod.Spec.Containers[0]
			seen[c.Name] = true
			switch c.Name {
			case "controlplane", "etcd":
				minutes := map[string]int{"controlplane": want[0], "etcd": want[1]}[c.Name]
				if p := c.StartupProbe; int(p.PeriodSeconds*p.FailureThreshold) != 60*minutes {
					t.Errorf("%s: %s may take %d s", set, c.Name, p.PeriodSeconds*p.FailureThreshold)
				}
			case "backup":
				cfg, err := boot.Load[boot.Backup]("oscarfed backup", "", c.Args[1:], io.Discard)
				if err != nil || cfg.Timeout != time.Duration(want[2])*time.Minute {
					t.Errorf("%s: a backup may take %s, %v", set, cfg.Timeout, err)
				}
			}
		}
		for _, j := range of[*batchv1.CronJob](m) {
			if limit := j.Spec.JobTemplate.Spec.ActiveDeadlineSeconds; limit == nil || int(*limit) != 3*60*want[2]+600 {
				t.Errorf("%s: its Job is ended after %v s", set, limit)
			}
		}
		if !seen["controlplane"] || !seen["etcd"] || !seen["backup"] {
			t.Errorf("%s: only %v is there", set, seen)
		}
	}
}
