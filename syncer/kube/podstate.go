package kube

import (
	"context"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
)

// PodState is what the pod of a Job tells of itself, beyond its phase.
type PodState struct {
	// Reason is Kubernetes' word for why it waits, or how it ended: ImagePullBackOff,
	// FailedMount, Unschedulable, OOMKilled, Error. Empty for nothing to tell. Message is
	// what Kubernetes says of it, and never what the container itself has written.
	Reason, Message string
	// ExitCode of its container; 0 also when it has not ended.
	ExitCode int32
	// Stuck says that it has a node, and that something has to change before it can start.
	Stuck bool
	// Held says that its images are HeldImage and it has a node, and Ran that its container
	// was, or may have been, started.
	Held, Ran bool
	// CannotRun says that it is held, that its node knows, and that it had not started
	// before: it never runs.
	CannotRun bool
	// Offered says that its Job stands in an offer.
	Offered bool
}

// What a container waits for without anything being wrong.
const (
	containerCreating = "ContainerCreating"
	podInitializing   = "PodInitializing"
)

// invalidImage is a kubelet's word for HeldImage.
const invalidImage = "InvalidImageName"

// lightSpec keeps where a pod is, and its images.
func lightSpec(s *corev1.PodSpec) corev1.PodSpec {
	images := func(list []corev1.Container) []corev1.Container {
		var out []corev1.Container
		for _, c := range list {
			out = append(out, corev1.Container{Name: c.Name, Image: c.Image})
		}
		return out
	}
	return corev1.PodSpec{NodeName: s.NodeName, Containers: images(s.Containers), InitContainers: images(s.InitContainers)}
}

// stateOf reads what a pod tells. What has happened to its container counts more than what
// happened to it before, and that more than the pod as a whole.
func stateOf(p *corev1.Pod) PodState {
	var s PodState
	all := append(append([]corev1.ContainerStatus{}, p.Status.ContainerStatuses...), p.Status.InitContainerStatuses...)
	for i := range all {
		if s.Reason, s.Message, s.ExitCode = troubleOf(&all[i]); s.Reason != "" {
			break
		}
	}
	waits := p.Status.Phase == corev1.PodPending && p.Spec.NodeName != ""
	s.Stuck = waits && s.Reason != "" && s.ExitCode == 0
	if s.Reason == "" {
		s.Reason, s.Message = p.Status.Reason, p.Status.Message
	}
	if s.Reason == "" && p.Status.Phase == corev1.PodPending {
		for _, c := range p.Status.Conditions {
			if c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse {
				s.Reason, s.Message = c.Reason, c.Message
			}
		}
	}
	s.Held, s.Ran = waits && podOf(p).Held, hasRun(p)
	s.CannotRun = s.Held && !s.Ran && nodeKnows(p)
	return s
}

// troubleOf says why a container waits, or that it ended badly. What it has written as its
// last words is its own, and may hold anything: it is not told.
func troubleOf(c *corev1.ContainerStatus) (reason, message string, exit int32) {
	switch w, t := c.State.Waiting, c.State.Terminated; {
	case w != nil && w.Reason != containerCreating && w.Reason != podInitializing:
		return w.Reason, w.Message, 0
	case t != nil && t.ExitCode != 0:
		if message = t.Message; !t.StartedAt.IsZero() {
			message = ""
		}
		return t.Reason, message, t.ExitCode
	}
	return "", "", 0
}

// hasRun says whether a container of a pod was started, as far as its node has reported. Init
// containers do not count.
func hasRun(p *corev1.Pod) bool {
	if p.Status.Phase != corev1.PodPending {
		return true
	}
	for _, c := range p.Status.ContainerStatuses {
		if c.State.Running != nil || c.State.Terminated != nil || c.LastTerminationState.Terminated != nil || c.RestartCount > 0 {
			return true
		}
	}
	return false
}

// nodeKnows says whether the node of a held pod has seen its new images. A kubelet does one thing
// after another with a pod: once it reports these images, or the generation that has them, it
// starts no others.
func nodeKnows(p *corev1.Pod) bool {
	if p.Generation > 1 && p.Status.ObservedGeneration >= p.Generation {
		return true
	}
	for _, list := range [][]corev1.ContainerStatus{p.Status.InitContainerStatuses, p.Status.ContainerStatuses} {
		for _, c := range list {
			if c.State.Waiting != nil && c.State.Waiting.Reason == invalidImage && strings.HasSuffix(c.Image, HeldImage) {
				return true
			}
		}
	}
	return false
}

// maxEvents bounds the events that are read for the pods of a service.
const maxEvents = 500

// askEvents adds warnings to the pods whose containers are being created: only events say that a
// volume cannot be mounted. Without the right to read events it adds nothing.
func (c *Client) askEvents(ctx context.Context, namespace string, pods map[string]*corev1.Pod) error {
	making := map[string]*corev1.Pod{}
	for _, p := range pods {
		if p.Status.Phase == corev1.PodPending && p.Spec.NodeName != "" && stateOf(p).Reason == "" {
			making[string(p.UID)] = p
		}
	}
	if len(making) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	list, err := c.lists.CoreV1().Events(namespace).List(ctx, metav1.ListOptions{
		FieldSelector: fields.AndSelectors(fields.OneTermEqualSelector("involvedObject.kind", "Pod"),
			fields.OneTermEqualSelector("type", corev1.EventTypeWarning)).String(),
		Limit: maxEvents,
	})
	if apierrors.IsForbidden(err) {
		return nil
	}
	if err != nil {
		return failed("events of pods", err)
	}
	newest := map[string]*corev1.Event{}
	for i := range list.Items {
		e := &list.Items[i]
		uid := string(e.InvolvedObject.UID)
		if _, asked := making[uid]; !asked || !startFailed(e.Reason) {
			continue
		}
		if have := newest[uid]; have == nil || have.LastTimestamp.Before(&e.LastTimestamp) {
			newest[uid] = e
		}
	}
	for uid, e := range newest {
		p := making[uid]
		waiting := &corev1.ContainerStateWaiting{Reason: e.Reason, Message: e.Message}
		p.Status.ContainerStatuses = append([]corev1.ContainerStatus{{Name: oscarContainer, State: corev1.ContainerState{Waiting: waiting}}}, p.Status.ContainerStatuses...)
	}
	return nil
}

// startFailed says whether the reason of an event keeps a container from being created.
func startFailed(reason string) bool {
	switch reason {
	case "FailedMount", "FailedAttachVolume", "FailedMapVolume", "FailedCreatePodSandBox", "FailedCreatePodContainer", "NetworkNotReady":
		return true
	}
	return false
}
