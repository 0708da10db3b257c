package kube

import (
	"context"
	"errors"
	"fmt"
	"sync"

	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	coreinformers "k8s.io/client-go/informers/core/v1"
	"k8s.io/client-go/tools/cache"
)

// CapacityWatcher reports changes of the capacity of the nodes.
type CapacityWatcher interface {
	// WatchCapacity calls changed when a pod was given a node, or has ended or gone from one, and
	// when a node was changed in what it gives to pods, until ctx ends. Some calls bring
	// nothing new. It returns before ctx ends with ErrAbsent, ErrDenied, or what else keeps it
	// from beginning.
	WatchCapacity(ctx context.Context, changed func()) error
}

// WatchCapacity implements CapacityWatcher.
func (Absent) WatchCapacity(context.Context, func()) error { return ErrAbsent }

// WatchCapacity implements CapacityWatcher by two informers, which keep only the names of pods.
func (c *Client) WatchCapacity(ctx context.Context, changed func()) error {
	if err := c.mayWatchCapacity(ctx); err != nil {
		return err
	}
	ctx = c.logging(ctx)
	pods := coreinformers.NewFilteredPodInformer(c.kube, metav1.NamespaceAll, 0, cache.Indexers{},
		func(o *metav1.ListOptions) { o.FieldSelector = onNodes().String() })
	nodes := coreinformers.NewNodeInformer(c.kube, 0, cache.Indexers{})
	tell := func(any) { changed() }
	_, podErr := pods.AddEventHandler(cache.ResourceEventHandlerFuncs{AddFunc: tell, DeleteFunc: tell})
	_, nodeErr := nodes.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: tell, DeleteFunc: tell,
		UpdateFunc: func(before, now any) {
			if !apiequality.Semantic.DeepEqual(capacityOf(before), capacityOf(now)) {
				changed()
			}
		},
	})
	if err := errors.Join(pods.SetTransform(bareOf), nodes.SetTransform(bareOf), podErr, nodeErr); err != nil {
		return fmt.Errorf("kubernetes: watch of nodes: %w", err)
	}
	var all sync.WaitGroup
	all.Go(func() { pods.RunWithContext(ctx) })
	nodes.RunWithContext(ctx)
	all.Wait()
	return nil
}

// onNodes selects the pods that use capacity: they have a node and have not ended. A watch reports
// a pod that ends as deleted, since it leaves the selection.
func onNodes() fields.Selector {
	return fields.AndSelectors(
		fields.OneTermNotEqualSelector("status.phase", string(corev1.PodSucceeded)),
		fields.OneTermNotEqualSelector("status.phase", string(corev1.PodFailed)),
		fields.OneTermNotEqualSelector("spec.nodeName", ""),
	)
}

// mayWatchCapacity makes the first request of the informer: that would retry without end.
func (c *Client) mayWatchCapacity(ctx context.Context) error {
	ctx, cancel := c.call(ctx)
	defer cancel()
	w, err := c.kube.CoreV1().Nodes().Watch(ctx, metav1.ListOptions{})
	if err != nil {
		return failed("watch of nodes", err)
	}
	w.Stop()
	return nil
}

// bareOf keeps the name of a pod, and the fields of a node that decide its capacity.
func bareOf(obj any) (any, error) {
	switch o := obj.(type) {
	case *corev1.Pod:
		return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: o.Name, Namespace: o.Namespace, UID: o.UID, ResourceVersion: o.ResourceVersion}}, nil
	case *corev1.Node:
		out := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: o.Name, UID: o.UID, ResourceVersion: o.ResourceVersion, Labels: o.Labels}}
		out.Spec.Unschedulable, out.Spec.Taints, out.Status.Allocatable = o.Spec.Unschedulable, o.Spec.Taints, o.Status.Allocatable
		for _, c := range o.Status.Conditions {
			if c.Type == corev1.NodeReady {
				out.Status.Conditions = []corev1.NodeCondition{{Type: c.Type, Status: c.Status}}
			}
		}
		return out, nil
	}
	return obj, nil
}

// capacityOf is a node without its version, which changes every few seconds.
func capacityOf(obj any) *corev1.Node {
	n, ok := obj.(*corev1.Node)
	if !ok {
		return nil
	}
	out := *n
	out.ResourceVersion = ""
	return &out
}
