package kube

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
)

// SecretLeft implements Interface by the dry run of a creation: so the syncer needs no right to
// read Secrets.
func (c *Client) SecretLeft(ctx context.Context, owner, service string) (bool, error) {
	ctx, cancel := c.call(ctx)
	defer cancel()
	namespace := Namespace(c.cfg.Services, owner)
	probe := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: service}}
	_, err := c.kube.CoreV1().Secrets(namespace).Create(ctx, probe, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
	what := fmt.Sprintf("is there a Secret %s/%s", namespace, service)
	switch {
	case err == nil:
		return false, nil
	case apierrors.IsAlreadyExists(err):
		return true, nil
	case apierrors.IsNotFound(err): // the namespace is made with the owner's first service
		return false, nil
	case apierrors.IsBadRequest(err): // an admission webhook does not support dry runs
		return false, fmt.Errorf("kubernetes: %s: %w: %w", what, ErrDenied, err)
	}
	return false, failed(what, err)
}

// Heal implements Interface. The PodTemplate is owned by the ConfigMap that OSCAR lists the service
// by, so it is deleted together with that.
func (c *Client) Heal(ctx context.Context, service string) error {
	ctx, cancel := c.call(ctx)
	defer cancel()
	list, err := c.metadata.Resource(configMaps).List(ctx, metav1.ListOptions{
		LabelSelector: labels.Set{serviceLabel: service}.String(),
		FieldSelector: fields.OneTermEqualSelector(metav1.ObjectNameField, service).String(),
		Limit:         2,
	})
	if err != nil {
		return failed("ConfigMap of service "+service, err)
	}
	if len(list.Items) != 1 || list.Continue != "" {
		return fmt.Errorf("kubernetes: service %s has %d ConfigMaps, not one", service, len(list.Items))
	}
	definition := &list.Items[0]
	// Kubernetes wants a container in it. OSCAR reads that it is there and deletes it;
	// nothing is ever run from it.
	template := &corev1.PodTemplate{
		ObjectMeta: metav1.ObjectMeta{
			Name:   service,
			Labels: map[string]string{serviceLabel: service, managedByLabel: ours},
			OwnerReferences: []metav1.OwnerReference{{
				APIVersion: "v1", Kind: "ConfigMap", Name: definition.Name, UID: definition.UID,
			}},
		},
		Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{Containers: []corev1.Container{{
			Name: "oscar-container", Image: "scratch",
		}}}},
	}
	_, err = c.kube.CoreV1().PodTemplates(definition.Namespace).Create(ctx, template, metav1.CreateOptions{})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return failed(fmt.Sprintf("PodTemplate %s/%s", definition.Namespace, service), err)
	}
	return nil
}
