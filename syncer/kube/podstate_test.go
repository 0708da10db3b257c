package kube_test

import (
	"errors"
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/oscarfed/oscarfed/syncer/kube"
	"github.com/oscarfed/oscarfed/test/kubetest"
)

const function = "oscar-container"

// at is a container that waits.
func at(image, reason, message string) corev1.PodStatus {
	return corev1.PodStatus{Phase: corev1.PodPending, ContainerStatuses: []corev1.ContainerStatus{{
		Name: function, Image: image, State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason, Message: message}},
	}}}
}

// boundJob is a Job whose pod has a node.
func boundJob(t *testing.T, client *kube.Client, namespace, name, service string) (kube.JobKey, string) {
	t.Helper()
	j := withPod(t, client, makeJob(t, namespace, job(name, service)))
	if err := bind(t, namespace, j.Pods[0].Name); err != nil {
		t.Fatal(err)
	}
	return j.JobKey, j.Pods[0].Name
}

// TestWhyAPodDoesNotStartIsTold, and how it ended; what the container itself has written as
// its last words is nobody else's.
func TestWhyAPodDoesNotStartIsTold(t *testing.T) {
	t.Parallel()
	client, service, namespace := open(t), name(t), "oscar-svc-why"
	define(t, shared.Cluster(t).Namespace(t, namespace), service)
	key, pod := boundJob(t, client, namespace, service+"-1", service)
	told := func() kube.PodState { return jobsOf(t, client, service)[key.Name].Pod }

	setPod(t, namespace, pod, at("example.org/work", "ContainerCreating", ""))
	if got := told(); got.Stuck || got.Reason != "" {
		t.Errorf("a container that is being made is %+v", got)
	}
	pods := shared.Cluster(t).Client().CoreV1().Pods(namespace)
	p, err := pods.Get(t.Context(), pod, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	warn := func(reason, message string) {
		e := &corev1.Event{ObjectMeta: metav1.ObjectMeta{GenerateName: pod}, Type: corev1.EventTypeWarning, Reason: reason, Message: message,
			InvolvedObject: corev1.ObjectReference{Kind: "Pod", Namespace: namespace, Name: pod, UID: p.UID}, LastTimestamp: metav1.Now()}
		if _, err := shared.Cluster(t).Client().CoreV1().Events(namespace).Create(t.Context(), e, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	warn("Unhealthy", "about something else")
	if got := told(); got.Stuck || got.Reason != "" {
		t.Errorf("after a warning of something else it is %+v", got)
	}
	warn("FailedMount", "no volume")
	if got := told(); !got.Stuck || got.Reason != "FailedMount" || got.Message != "no volume" {
		t.Errorf("a container without its volume is %+v", got)
	}
	for _, reason := range []string{"ImagePullBackOff", "CreateContainerConfigError", "InvalidImageName"} {
		setPod(t, namespace, pod, at("example.org/work", reason, "because"))
		if got := told(); !got.Stuck || got.Reason != reason || got.Message != "because" || got.Held || got.CannotRun || got.Ran {
			t.Errorf("%s: %+v", reason, got)
		}
	}
	ended := corev1.PodStatus{Phase: corev1.PodFailed, ContainerStatuses: []corev1.ContainerStatus{{
		Name: function, State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{
			Reason: "OOMKilled", ExitCode: 137, Message: "what the function wrote", StartedAt: metav1.Now(), FinishedAt: metav1.Now()}},
	}}}
	setPod(t, namespace, pod, ended)
	kubetest.Eventually(t, "its controller has seen its end", func() bool { return jobsOf(t, client, service)[key.Name].Phase == kube.JobFailed })
	if got := told(); got.Stuck || got.Reason != "OOMKilled" || got.ExitCode != 137 || got.Message != "" || !got.Ran {
		t.Errorf("a pod that was killed for its memory is %+v", got)
	}
}

// TestAStuckPodThatIsHeldNeverRuns: it counts as such when its node has said so, and not
// when it had started in that moment.
func TestAStuckPodThatIsHeldNeverRuns(t *testing.T) {
	t.Parallel()
	client, service, namespace := open(t), name(t), "oscar-svc-stuck"
	define(t, shared.Cluster(t).Namespace(t, namespace), service)
	key, pod := boundJob(t, client, namespace, service+"-1", service)
	setPod(t, namespace, pod, at("example.org/work", "ImagePullBackOff", ""))
	before := read(t, client, key)
	setPod(t, namespace, pod, at("example.org/work", "ErrImagePull", ""))
	if err := client.HoldStuckPod(t.Context(), before, before.Pods[0]); !errors.Is(err, kube.ErrJobChanged) {
		t.Fatalf("a pod that was changed since it was read: %v", err)
	}
	now := read(t, client, key)
	if err := client.HoldStuckPod(t.Context(), now, now.Pods[0]); err != nil {
		t.Fatal(err)
	}
	told := func() kube.PodState { return jobsOf(t, client, service)[key.Name].Pod }
	if got := told(); !got.Held || got.CannotRun {
		t.Errorf("before its node knows it is %+v", got)
	}
	setPod(t, namespace, pod, at("example.org/work", "InvalidImageName", "")) // of its own image
	if got := told(); got.CannotRun {
		t.Errorf("its node speaks of another image, and it is %+v", got)
	}
	setPod(t, namespace, pod, at(kube.HeldImage, "InvalidImageName", ""))
	if got := told(); !got.Held || !got.CannotRun || got.Ran {
		t.Errorf("when its node knows it is %+v", got)
	}
	ran := at(kube.HeldImage, "InvalidImageName", "")
	ran.ContainerStatuses[0].LastTerminationState.Terminated = &corev1.ContainerStateTerminated{ExitCode: 137, StartedAt: metav1.Now(), FinishedAt: metav1.Now()}
	setPod(t, namespace, pod, ran)
	if got := told(); !got.Held || got.CannotRun || !got.Ran {
		t.Errorf("one that had started is %+v", got)
	}
}

// TestANodeThatHasSeenTheHoldSaysSoByTheGeneration: one whose volume cannot be mounted never
// comes as far as its image.
func TestANodeThatHasSeenTheHoldSaysSoByTheGeneration(t *testing.T) {
	t.Parallel()
	client, service, namespace := open(t), name(t), "oscar-svc-generation"
	define(t, shared.Cluster(t).Namespace(t, namespace), service)
	key, pod := boundJob(t, client, namespace, service+"-1", service)
	setPod(t, namespace, pod, at("example.org/work", "ContainerCreating", ""))
	now := read(t, client, key)
	if err := client.HoldStuckPod(t.Context(), now, now.Pods[0]); err != nil {
		t.Fatal(err)
	}
	p, err := shared.Cluster(t).Client().CoreV1().Pods(namespace).Get(t.Context(), pod, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if p.Generation < 2 {
		t.Fatalf("this Kubernetes counts no changes of a pod: generation %d", p.Generation)
	}
	told := func(observed int64) kube.PodState {
		status := at(kube.HeldImage, "ContainerCreating", "")
		status.ObservedGeneration = observed
		setPod(t, namespace, pod, status)
		return jobsOf(t, client, service)[key.Name].Pod
	}
	if got := told(p.Generation - 1); got.CannotRun {
		t.Errorf("before its node has seen it, it is %+v", got)
	}
	if got := told(p.Generation); !got.CannotRun {
		t.Errorf("when its node has seen it, it is %+v", got)
	}
}

// TestAPodThatRunsIsNotHeld, not even by the syncer's rights.
func TestAPodThatRunsIsNotHeld(t *testing.T) {
	t.Parallel()
	client, service, namespace := open(t), name(t), "oscar-svc-runs"
	define(t, shared.Cluster(t).Namespace(t, namespace), service)
	key, pod := boundJob(t, client, namespace, service+"-1", service)
	stuck := read(t, client, key)
	running := corev1.PodStatus{Phase: corev1.PodRunning, ContainerStatuses: []corev1.ContainerStatus{{
		Name: function, State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: metav1.Now()}}}}}
	setPod(t, namespace, pod, running)
	if err := client.HoldStuckPod(t.Context(), stuck, stuck.Pods[0]); !errors.Is(err, kube.ErrJobChanged) {
		t.Errorf("one that was read before it ran: %v", err)
	}
	now := read(t, client, key)
	if err := client.HoldStuckPod(t.Context(), now, now.Pods[0]); !errors.Is(err, kube.ErrJobChanged) {
		t.Errorf("one that runs: %v", err)
	}
	// A policy counts a moment after it was made: until then each try holds another pod.
	tries := 0
	kubetest.Eventually(t, "the policy keeps the syncer from a pod that runs", func() bool {
		tries++
		key, pod := boundJob(t, client, namespace, fmt.Sprintf("%s-more-%d", service, tries), service)
		setPod(t, namespace, pod, running)
		job := read(t, client, key)
		pretended := job.Pods[0]
		pretended.Ran = false
		return errors.Is(client.HoldStuckPod(t.Context(), job, pretended), kube.ErrJobRefused)
	})
}
