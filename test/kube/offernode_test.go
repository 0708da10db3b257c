package kube_test

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// schedule gives every pod of the Job a node, as far as Kubernetes accepts it.
func (h *history) schedule() {
	pods := shared.Cluster(h.t).Client().CoreV1().Pods(h.namespace)
	list, err := pods.List(context.WithoutCancel(h.t.Context()), metav1.ListOptions{})
	if err != nil {
		h.t.Error(err)
		return
	}
	for _, p := range list.Items {
		if p.Spec.NodeName != "" {
			continue
		}
		err := pods.Bind(context.WithoutCancel(h.t.Context()), &corev1.Binding{
			ObjectMeta: metav1.ObjectMeta{Name: p.Name}, Target: corev1.ObjectReference{Kind: "Node", Name: "n1"},
		}, metav1.CreateOptions{})
		if err != nil && !apierrors.IsConflict(err) && !apierrors.IsNotFound(err) {
			h.t.Error(err)
		}
	}
	h.node()
}

// node plays the kubelet: it starts what it can, and ends what is deleted.
func (h *history) node() {
	ctx := context.WithoutCancel(h.t.Context())
	pods := shared.Cluster(h.t).Client().CoreV1().Pods(h.namespace)
	list, err := pods.List(ctx, metav1.ListOptions{})
	if err != nil {
		h.t.Error(err)
		return
	}
	for _, p := range list.Items {
		if p.Spec.NodeName == "" {
			continue
		}
		own := p.Spec.Containers[0].Image == "example.org/work"
		h.mu.Lock()
		begins := own && !h.begun[p.UID] && p.DeletionTimestamp == nil
		if begins {
			h.begun[p.UID] = true
			if h.accepted {
				h.t.Errorf("pod %s starts, and the Job was accepted elsewhere", p.Name)
			}
		}
		if p.DeletionTimestamp != nil && h.begun[p.UID] {
			h.killed[p.UID] = true
		}
		h.mu.Unlock()
		switch {
		case p.DeletionTimestamp != nil:
			err = pods.Delete(ctx, p.Name, metav1.DeleteOptions{GracePeriodSeconds: new(int64(0)), Preconditions: &metav1.Preconditions{UID: &p.UID}})
		case begins:
			p.Status.Phase = corev1.PodRunning
			p.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "oscar-container", Image: p.Spec.Containers[0].Image,
				State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: metav1.Now()}}}}
			_, err = pods.UpdateStatus(ctx, &p, metav1.UpdateOptions{})
		default:
			err = nil
		}
		if err != nil && !apierrors.IsConflict(err) && !apierrors.IsNotFound(err) {
			h.t.Error(err)
		}
	}
}
