package kube

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/metadata/metadatainformer"
	"k8s.io/client-go/tools/cache"
)

var configMaps = schema.GroupVersionResource{Version: "v1", Resource: "configmaps"} //nolint:gochecknoglobals // a constant

// Watch implements Interface by an informer, which lists again by itself whenever
// its watch breaks. Of each ConfigMap it asks for the metadata only, and keeps
// what tells its service.
func (c *Client) Watch(ctx context.Context, changed func(service string)) error {
	ctx = c.logging(ctx)
	informer := metadatainformer.NewFilteredMetadataInformer(c.metadata, configMaps, metav1.NamespaceAll, 0, cache.Indexers{},
		func(o *metav1.ListOptions) { o.LabelSelector = serviceLabel }).Informer()
	err := informer.SetTransform(func(obj any) (any, error) {
		m, ok := obj.(*metav1.PartialObjectMetadata)
		if !ok {
			return obj, nil
		}
		return &metav1.PartialObjectMetadata{TypeMeta: m.TypeMeta, ObjectMeta: metav1.ObjectMeta{
			Name: m.Name, Namespace: m.Namespace, UID: m.UID, ResourceVersion: m.ResourceVersion,
			Labels: map[string]string{serviceLabel: m.Labels[serviceLabel]},
		}}, nil
	})
	if err != nil {
		return fmt.Errorf("kubernetes: watch: %w", err)
	}
	tell := func(obj any) {
		if service := serviceOf(obj); service != "" {
			changed(service)
		}
	}
	_, err = informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: tell,
		UpdateFunc: func(before, after any) {
			if sameVersion(before, after) {
				return // listed again
			}
			if serviceOf(before) != serviceOf(after) {
				tell(before)
			}
			tell(after)
		},
		DeleteFunc: tell,
	})
	if err != nil {
		return fmt.Errorf("kubernetes: watch: %w", err)
	}
	informer.RunWithContext(ctx)
	return nil
}

// serviceOf is the service whose definition an object of the informer is.
func serviceOf(obj any) string {
	if gone, ok := obj.(cache.DeletedFinalStateUnknown); ok {
		obj = gone.Obj
	}
	m, ok := obj.(*metav1.PartialObjectMetadata)
	if !ok {
		return ""
	}
	return m.Labels[serviceLabel]
}

func sameVersion(before, after any) bool {
	b, okB := before.(*metav1.PartialObjectMetadata)
	a, okA := after.(*metav1.PartialObjectMetadata)
	return okB && okA && b.ResourceVersion == a.ResourceVersion
}
