package kube

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
)

// Kueue decides when a Job of a queue may have pods: the Job is suspended until its
// Workload is admitted. Kueue starts and stops such a Job by itself, and when it stops
// it, also one that is suspended, it writes back the template that its Workload
// remembers: what is written into the template does not last. Its scheduler writes an
// admission whatever the Workload has become meanwhile, so that a Workload which is not
// active does not hold its Job either. But Kueue leaves alone what is in no queue, and
// starts a Job by a patch of the version that it has read. So what holds a Job is that
// it is taken out of its queue while it is suspended: either that write is first, and
// Kueue's fails, or the other way round. That its Workload is not active only keeps
// Kueue from giving it a place that it would not use.

// kueue is the group of Workloads, and jobUIDLabel is on that of a Job.
const (
	kueue       = "kueue.x-k8s.io"
	jobUIDLabel = "kueue.x-k8s.io/job-uid"
)

// kueueVersions are those whose Workloads we know, the newest first.
func kueueVersions() []string { return []string{"v1beta2", "v1beta1"} }

// errNoKueue says that no version of Workloads is served.
var errNoKueue = errors.New("no version of Workloads is served")

// workloads are those of a namespace, in a version that is served.
func (c *Client) workloads(ctx context.Context, namespace string, ask func(dynamic.ResourceInterface) error) error {
	for _, version := range kueueVersions() {
		resource := schema.GroupVersionResource{Group: kueue, Version: version, Resource: "workloads"}
		err := ask(c.dynamic.Resource(resource).Namespace(namespace))
		if !apierrors.IsNotFound(err) {
			return err
		}
		if ctx.Err() != nil {
			return err
		}
	}
	return errNoKueue
}

// workload finds that of a Job; nil when there is none.
func (c *Client) workload(ctx context.Context, job *Job) (*Workload, error) {
	var found *unstructured.UnstructuredList
	err := c.workloads(ctx, job.Namespace, func(r dynamic.ResourceInterface) (err error) {
		found, err = r.List(ctx, metav1.ListOptions{LabelSelector: labels.Set{jobUIDLabel: job.UID}.String(), Limit: 2})
		return err
	})
	if errors.Is(err, errNoKueue) {
		return nil, nil //nolint:nilnil // a label alone makes no Workload
	}
	if err != nil {
		return nil, failed("Workload of Job "+job.String(), err)
	}
	if len(found.Items) != 1 {
		return nil, nil //nolint:nilnil // not made yet, or being made anew
	}
	w := &found.Items[0]
	out := &Workload{Name: w.GetName(), Active: true, version: w.GetResourceVersion()}
	if active, told, err := unstructured.NestedBool(w.Object, "spec", "active"); err == nil && told {
		out.Active = active
	}
	conditions, _, err := unstructured.NestedSlice(w.Object, "status", "conditions")
	if err != nil {
		return nil, fmt.Errorf("kubernetes: Workload %s/%s: %w", job.Namespace, out.Name, err)
	}
	for _, raw := range conditions {
		condition, ok := raw.(map[string]any)
		if ok && condition["status"] == "True" && (condition["type"] == "Admitted" || condition["type"] == "QuotaReserved") {
			out.Admitted = true
		}
	}
	return out, nil
}

// SetActive implements JobStore.
func (c *Client) SetActive(ctx context.Context, job *Job, active bool) error {
	what := "Workload of Job " + job.String()
	if job.Workload == nil {
		return fmt.Errorf("kubernetes: %s: %w: there is none", what, ErrJobChanged)
	}
	spec := map[string]any{"active": active}
	if active && job.Mark != nil && job.Mark.Queue != "" {
		// A Kueue that manages what has no queue, too, took it from the Workload when the
		// Job left, and does not write it back to one that was evicted.
		spec["queueName"] = job.Mark.Queue
	}
	patch, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"resourceVersion": job.Workload.version}, "spec": spec,
	})
	if err != nil {
		return err
	}
	ctx, cancel := c.call(ctx)
	defer cancel()
	err = c.workloads(ctx, job.Namespace, func(r dynamic.ResourceInterface) error {
		_, err := r.Patch(ctx, job.Workload.Name, types.MergePatchType, patch, metav1.PatchOptions{FieldManager: ours})
		return err
	})
	if errors.Is(err, errNoKueue) {
		return fmt.Errorf("kubernetes: %s: %w: %w", what, ErrJobChanged, err)
	}
	return changeError(what, err)
}
