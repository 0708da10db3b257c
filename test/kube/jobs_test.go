package kube_test

import (
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/oscarfed/oscarfed/api/client"
	"github.com/oscarfed/oscarfed/internal/oscarsim"
	"github.com/oscarfed/oscarfed/store/record"
	"github.com/oscarfed/oscarfed/syncer"
	"github.com/oscarfed/oscarfed/test/kubetest"
	"github.com/oscarfed/oscarfed/test/world"
)

// TestTheEndOfAJobIsSeenWithoutItsPod: its node was removed with all its pods, and OSCAR
// calls the Job suspended for as long as it is kept. The job ends, and its service can be
// deleted.
func TestTheEndOfAJobIsSeenWithoutItsPod(t *testing.T) {
	t.Parallel()
	const services = "podless"
	open := below(t, services)
	w := world.New(t, world.Options{Clusters: []string{cluster}, Names: []string{services}, Syncer: func(c *syncer.Config) {
		// What the simulated OSCAR makes is in Kubernetes when the test has carried it there.
		c.Kube, c.JobGrace = open(c.Logger), time.Hour
	}})
	create(w, services)
	sim, api := w.Cluster(cluster).Sim, shared.Cluster(t).Client()
	id := w.Submit(services, "event")
	var name string
	w.Eventually("OSCAR has the job", func() bool {
		for _, j := range sim.Jobs(services) {
			name = j.Name
		}
		return name != ""
	})
	labels := map[string]string{"oscar_service": services}
	if _, err := api.BatchV1().Jobs(services).Create(t.Context(), &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels},
		Spec: batchv1.JobSpec{BackoffLimit: new(int32(0)), Template: corev1.PodTemplateSpec{
			ObjectMeta: metav1.ObjectMeta{Labels: labels},
			Spec:       corev1.PodSpec{RestartPolicy: corev1.RestartPolicyNever, Containers: []corev1.Container{{Name: "oscar-container", Image: "example.org/work"}}},
		}},
	}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	pods := api.CoreV1().Pods(services)
	var pod corev1.Pod
	kubetest.Eventually(t, "the Job has a pod", func() bool {
		list, err := pods.List(t.Context(), metav1.ListOptions{LabelSelector: batchv1.JobNameLabel + "=" + name})
		if err != nil {
			t.Fatal(err)
		}
		if len(list.Items) == 1 {
			pod = list.Items[0]
		}
		return len(list.Items) == 1
	})
	if err := sim.SetJobStatus(services, name, oscarsim.JobSuspended); err != nil {
		t.Fatal(err)
	}
	// The pod fails and goes: the Job controller takes note of it, and then lets it go.
	pod.Status = corev1.PodStatus{Phase: corev1.PodFailed}
	if _, err := pods.UpdateStatus(t.Context(), &pod, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := pods.Delete(t.Context(), pod.Name, metav1.DeleteOptions{GracePeriodSeconds: new(int64(0))}); err != nil {
		t.Fatal(err)
	}
	if got := w.AwaitJob(id, record.JobFailed, record.JobVanished, record.JobSucceeded); got.State != record.JobFailed || got.EndedAt == nil {
		t.Errorf("the job is %+v", got)
	}
	if _, err := w.Client.DeleteService(t.Context(), services, client.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	w.Eventually("its service is deleted", func() bool {
		_, there := sim.Service(services)
		return !there && len(w.Keys(record.DesiredServicesPrefix(cluster))) == 0
	})
}
