package kube_test

import (
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/oscarfed/oscarfed/api/client"
	"github.com/oscarfed/oscarfed/internal/oscarsim"
	"github.com/oscarfed/oscarfed/store/record"
	"github.com/oscarfed/oscarfed/syncer"
	"github.com/oscarfed/oscarfed/syncer/kube"
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
		// A busy machine is no reason to give a job back.
		c.Kube, c.Jobs.Grace, c.Jobs.Resend = open(c.Logger), time.Hour, time.Hour
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
	carry(t, services, name)
	pods := api.CoreV1().Pods(services)
	pod := podOf(t, services, name)
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

// carry makes in Kubernetes the Job that the simulated OSCAR has.
func carry(t *testing.T, services, name string) {
	t.Helper()
	labels := map[string]string{"oscar_service": services}
	one := new(int32(1))
	if _, err := shared.Cluster(t).Client().BatchV1().Jobs(services).Create(t.Context(), &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels},
		Spec: batchv1.JobSpec{BackoffLimit: new(int32(0)), Parallelism: one, Completions: one, Template: corev1.PodTemplateSpec{
			ObjectMeta: metav1.ObjectMeta{Labels: labels},
			Spec: corev1.PodSpec{RestartPolicy: corev1.RestartPolicyNever, Containers: []corev1.Container{{
				Name: "oscar-container", Image: "example.org/work", Env: []corev1.EnvVar{{Name: "EVENT", Value: "event"}}}}},
		}},
	}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

// podOf waits for the pod of a Job.
func podOf(t *testing.T, services, name string) (pod corev1.Pod) {
	t.Helper()
	kubetest.Eventually(t, "the Job has a pod", func() bool {
		list, err := shared.Cluster(t).Client().CoreV1().Pods(services).List(t.Context(), metav1.ListOptions{LabelSelector: batchv1.JobNameLabel + "=" + name})
		if err != nil {
			t.Fatal(err)
		}
		if len(list.Items) == 1 {
			pod = list.Items[0]
		}
		return len(list.Items) == 1
	})
	return pod
}

// waits is what a node says of a pod that cannot start.
func waits(t *testing.T, pod corev1.Pod, image, reason, message string) {
	t.Helper()
	pods := shared.Cluster(t).Client().CoreV1().Pods(pod.Namespace)
	kubetest.Eventually(t, "the status of the pod is taken", func() bool {
		p, err := pods.Get(t.Context(), pod.Name, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		p.Status = corev1.PodStatus{Phase: corev1.PodPending, ContainerStatuses: []corev1.ContainerStatus{{
			Name: "oscar-container", Image: image, State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason, Message: message}},
		}}}
		_, err = pods.UpdateStatus(t.Context(), p, metav1.UpdateOptions{})
		return err == nil
	})
}

// TestAJobWhosePodCannotStartSaysWhyAndIsGivenBack: its attempt is over when it is certain
// that it never starts, and the next one is made. Nothing of the service's secrets is told.
func TestAJobWhosePodCannotStartSaysWhyAndIsGivenBack(t *testing.T) {
	t.Parallel()
	const services = "unstartable"
	open := below(t, services)
	w := world.New(t, world.Options{Clusters: []string{cluster}, Names: []string{services}, Syncer: func(c *syncer.Config) {
		c.Kube, c.Jobs.Grace, c.Jobs.Resend, c.Jobs.Start = open(c.Logger), time.Hour, time.Hour, time.Millisecond
		// What was read is good for a third of a session: a busy Kubernetes is asked within it.
		c.SessionTTL = time.Minute
	}})
	create(w, services)
	sim := w.Cluster(cluster).Sim
	v, _ := sim.Service(services)
	id := w.Submit(services, "event")
	var name string
	w.Eventually("OSCAR has the job", func() bool {
		for _, j := range sim.Jobs(services) {
			name = j.Name
		}
		return name != ""
	})
	carry(t, services, name)
	pod := podOf(t, services, name)
	pods := shared.Cluster(t).Client().CoreV1().Pods(services)
	if err := pods.Bind(t.Context(), &corev1.Binding{ObjectMeta: metav1.ObjectMeta{Name: pod.Name}, Target: corev1.ObjectReference{Kind: "Node", Name: "n1"}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	waits(t, pod, "example.org/work", "ImagePullBackOff", "no such image; the token is "+v.Token)
	w.Eventually("the job says why it waits", func() bool {
		j, err := w.Client.Job(t.Context(), id)
		if err != nil {
			t.Fatal(err)
		}
		return j.Pod != nil && j.Pod.Reason == "ImagePullBackOff" && strings.Contains(j.Message, "no such image") && !strings.Contains(j.Message+j.Pod.Message, v.Token)
	})
	w.Eventually("its pod is held", func() bool {
		p, err := pods.Get(t.Context(), pod.Name, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return p.Spec.Containers[0].Image == kube.HeldImage
	})
	if j := w.Job(id); j.Attempt != 1 || j.State != record.JobAssigned {
		t.Errorf("before its node knows, the job is %+v", j)
	}
	waits(t, pod, kube.HeldImage, "InvalidImageName", "")
	var j *record.Job
	w.Eventually("the next attempt is made", func() bool { j = w.Job(id); return j.Attempt == 2 })
	first := j.Past[0]
	if first.Reason != record.JobCannotStart || first.State != record.JobRefused || first.Pod == nil || first.Pod.Reason != "ImagePullBackOff" || !strings.Contains(first.Message, "no such image") {
		t.Errorf("the first attempt: %+v", first)
	}
	if _, err := shared.Cluster(t).Client().BatchV1().Jobs(services).Get(t.Context(), name, metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("its Job is still there: %v", err)
	}
}
