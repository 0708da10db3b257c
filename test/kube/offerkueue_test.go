package kube_test

import (
	"context"
	"fmt"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	"github.com/oscarfed/oscarfed/syncer/kube"
	"github.com/oscarfed/oscarfed/test/kubetest"
)

// Workloads of Kueue, as far as they are looked at.
const workloadCRD = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata:
  name: workloads.kueue.x-k8s.io
  annotations: {api-approved.kubernetes.io: "https://github.com/kubernetes-sigs/kueue"}
spec:
  group: kueue.x-k8s.io
  names: {kind: Workload, listKind: WorkloadList, plural: workloads, singular: workload}
  scope: Namespaced
  versions:
  - name: v1beta1
    served: true
    storage: true
    subresources: {status: {}}
    schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}
`

var workloadResource = schema.GroupVersionResource{Group: "kueue.x-k8s.io", Version: "v1beta1", Resource: "workloads"}

func workloads(t *testing.T, namespace string) dynamic.ResourceInterface {
	t.Helper()
	client, err := dynamic.NewForConfig(shared.Cluster(t).Admin())
	if err != nil {
		t.Fatal(err)
	}
	return client.Resource(workloadResource).Namespace(namespace)
}

// queued makes the Job one that Kueue holds.
func queued(j *batchv1.Job) {
	j.Spec.Suspend = new(true)
	j.Labels["kueue.x-k8s.io/queue-name"] = "q"
}

// enqueue makes the Workload of the Job.
func (h *history) enqueue() {
	h.t.Helper()
	shared.Cluster(h.t).Apply(h.t, "", workloadCRD)
	w := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "kueue.x-k8s.io/v1beta1", "kind": "Workload",
		"metadata": map[string]any{"name": "job-" + h.key.Name, "labels": map[string]any{"kueue.x-k8s.io/job-uid": h.job().UID}},
		"spec":     map[string]any{"queueName": "q"},
	}}
	kubetest.Eventually(h.t, "Workloads are served", func() bool {
		_, err := workloads(h.t, h.namespace).Create(h.t.Context(), w, metav1.CreateOptions{})
		if err != nil && !apierrors.IsNotFound(err) {
			h.t.Fatal(err)
		}
		return err == nil
	})
}

// kueue plays what Kueue does of itself to a Job in a queue whose Workload is not active:
// it suspends it, takes its place from it, and each time that it looks at it writes back
// the template that the Workload remembers. It leaves alone what is in no queue.
func (h *history) kueue() {
	j := h.job()
	if j == nil || j.Queue == "" || j.Workload == nil || j.Workload.Active {
		return
	}
	if !j.Suspended {
		h.asKueue(j, `{"suspend":true}`)
		return
	}
	h.asKueue(j, `{"template":{"metadata":{"annotations":null},"spec":{"nodeSelector":null,"tolerations":null,"schedulingGates":null}}}`)
	if j.Workload.Admitted && j.Settled {
		h.admitted(j, false)
	}
}

// asKueue changes the spec of just the Job that was read.
func (h *history) asKueue(j *kube.Job, spec string) {
	_, err := shared.Cluster(h.t).Client().BatchV1().Jobs(h.namespace).Patch(context.WithoutCancel(h.t.Context()), h.key.Name, types.MergePatchType,
		fmt.Appendf(nil, `{"metadata":{"resourceVersion":%q},"spec":%s}`, j.Version, spec), metav1.PatchOptions{})
	if err != nil && !apierrors.IsConflict(err) && !apierrors.IsNotFound(err) {
		h.t.Error(err)
	}
}

// admit plays Kueue's scheduler, which admits a Workload, also one that is not active any
// more, and then Kueue itself, which starts its Job.
func (h *history) admit() {
	j := h.job()
	if j == nil || j.Workload == nil {
		return
	}
	h.admitted(j, true)
	if j.Queue != "" && j.Suspended {
		h.asKueue(j, `{"suspend":false}`)
	}
}

func (h *history) admitted(j *kube.Job, yes bool) {
	status := map[bool]string{true: "True", false: "False"}[yes]
	_, err := workloads(h.t, h.namespace).Patch(context.WithoutCancel(h.t.Context()), j.Workload.Name, types.MergePatchType,
		fmt.Appendf(nil, `{"status":{"conditions":[{"type":"Admitted","status":%q}]}}`, status), metav1.PatchOptions{}, "status")
	if err != nil && !apierrors.IsNotFound(err) {
		h.t.Error(err)
	}
}

// resume ends the suspension of the Job, as somebody would by hand.
func (h *history) resume() {
	_, err := shared.Cluster(h.t).Client().BatchV1().Jobs(h.namespace).Patch(context.WithoutCancel(h.t.Context()), h.key.Name, types.MergePatchType,
		[]byte(`{"spec":{"suspend":false}}`), metav1.PatchOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		h.t.Error(err)
	}
}
