package kube

import (
	"context"
	"encoding/json"
	"fmt"

	batchv1 "k8s.io/api/batch/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
)

// A change is a patch that names the version it is made to. It leaves all other fields as they are,
// also those of a newer API server.

// maxPods bounds the pods that are listed of one Job: it has one, and some that are being deleted.
const maxPods = 100

// Job implements JobStore.
func (c *Client) Job(ctx context.Context, key JobKey) (*Job, error) {
	ctx, cancel := c.call(ctx)
	defer cancel()
	raw, err := c.kube.BatchV1().Jobs(key.Namespace).Get(ctx, key.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil, fmt.Errorf("kubernetes: Job %s: %w", key, ErrNoJob)
	}
	if err != nil {
		return nil, failed("Job "+key.String(), err)
	}
	job := jobOf(raw)
	event, told := eventOf(&raw.Spec.Template.Spec)
	if job.Event = event; !told && job.Unusual == "" {
		job.Unusual = "it has no event"
	}
	// The pods are listed after the Job: a pod that a controller made of this version is among
	// them, or is made later.
	pods, err := c.kube.CoreV1().Pods(key.Namespace).List(ctx, metav1.ListOptions{
		LabelSelector: labels.Set{batchv1.ControllerUidLabel: job.UID}.String(), Limit: maxPods,
	})
	if err != nil {
		return nil, failed("pods of Job "+key.String(), err)
	}
	if pods.Continue != "" {
		return nil, fmt.Errorf("kubernetes: Job %s has more than %d pods", key, maxPods)
	}
	for i := range pods.Items {
		if ownerOf(&pods.Items[i]) == job.UID {
			job.Pods = append(job.Pods, podOf(&pods.Items[i]))
		}
	}
	if job.Queued() {
		if job.Workload, err = c.workload(ctx, job); err != nil {
			return nil, err
		}
	}
	return job, nil
}

// ChangeJob implements JobStore.
func (c *Client) ChangeJob(ctx context.Context, job *Job, change JobChange) error {
	meta, spec := preconditions(job.UID, job.Version), map[string]any{}
	if change.Mark != nil {
		mark := *change.Mark
		mark.V, mark.UID = markVersion, job.UID
		text, err := json.Marshal(mark)
		if err != nil {
			return err
		}
		meta["annotations"] = map[string]any{markAnnotation: string(text)}
	}
	if change.Suspend != nil {
		spec["suspend"] = *change.Suspend
	}
	if change.Queue != nil {
		label := any(*change.Queue)
		if label == "" {
			label = nil
		}
		meta["labels"] = map[string]any{queueLabel: label}
	}
	patch, err := json.Marshal(map[string]any{"metadata": meta, "spec": spec})
	if err != nil {
		return err
	}
	ctx, cancel := c.call(ctx)
	defer cancel()
	_, err = c.kube.BatchV1().Jobs(job.Namespace).Patch(ctx, job.Name, types.MergePatchType, patch, metav1.PatchOptions{FieldManager: ours})
	return changeError("change Job "+job.String(), err)
}

// HoldPod implements JobStore. A binding changes the version of a pod, so the hold of a pod that was
// bound since it was read fails. A pod that is bound after it was held starts nothing.
func (c *Client) HoldPod(ctx context.Context, job *Job, pod JobPod) error {
	if pod.Node != "" {
		return fmt.Errorf("kubernetes: hold pod %s/%s: %w: it has a node", job.Namespace, pod.Name, ErrJobChanged)
	}
	return c.hold(ctx, job, pod)
}

// HoldStuckPod implements JobStore. The node may be starting the pod at this moment: that it never
// runs is certain once the node has reported the new images (PodState.CannotRun).
func (c *Client) HoldStuckPod(ctx context.Context, job *Job, pod JobPod) error {
	if pod.Node == "" || pod.Ran {
		return fmt.Errorf("kubernetes: hold pod %s/%s: %w: it does not wait at a node", job.Namespace, pod.Name, ErrJobChanged)
	}
	return c.hold(ctx, job, pod)
}

// hold replaces the images of just the version of a pod that was read.
func (c *Client) hold(ctx context.Context, job *Job, pod JobPod) error {
	held := func(names []string) []map[string]string {
		list := []map[string]string{}
		for _, n := range names {
			list = append(list, map[string]string{"name": n, "image": HeldImage})
		}
		return list
	}
	spec := map[string]any{"containers": held(pod.containers)}
	if len(pod.init) > 0 {
		spec["initContainers"] = held(pod.init)
	}
	patch, err := json.Marshal(map[string]any{"metadata": preconditions(pod.uid, pod.version), "spec": spec})
	if err != nil {
		return err
	}
	ctx, cancel := c.call(ctx)
	defer cancel()
	_, err = c.kube.CoreV1().Pods(job.Namespace).Patch(ctx, pod.Name, types.StrategicMergePatchType, patch, metav1.PatchOptions{FieldManager: ours})
	return changeError(fmt.Sprintf("hold pod %s/%s", job.Namespace, pod.Name), err)
}

// DeleteJob implements JobStore.
func (c *Client) DeleteJob(ctx context.Context, job *Job) error {
	ctx, cancel := c.call(ctx)
	defer cancel()
	background, uid := metav1.DeletePropagationBackground, types.UID(job.UID)
	err := c.kube.BatchV1().Jobs(job.Namespace).Delete(ctx, job.Name, metav1.DeleteOptions{
		PropagationPolicy: &background, Preconditions: &metav1.Preconditions{UID: &uid, ResourceVersion: &job.Version},
	})
	return changeError("delete Job "+job.String(), err)
}

func preconditions(uid, version string) map[string]any {
	return map[string]any{"uid": uid, "resourceVersion": version}
}

// changeError makes the error of a change.
func changeError(what string, err error) error {
	switch {
	case err == nil:
		return nil
	case apierrors.IsConflict(err), apierrors.IsNotFound(err):
		return fmt.Errorf("kubernetes: %s: %w: %w", what, ErrJobChanged, err)
	case apierrors.IsInvalid(err), apierrors.IsBadRequest(err), apierrors.IsForbidden(err):
		// A missing right, too: only an administrator can grant it, and until then the Job stays
		// as it is.
		return fmt.Errorf("kubernetes: %s: %w: %w", what, ErrJobRefused, err)
	}
	return failed(what, err)
}
