package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/yaml"

	"github.com/oscarfed/oscarfed/internal/oscarsim"
	"github.com/oscarfed/oscarfed/internal/oscarsim/wire"
)

const (
	// container is that of a Job's pod, and keepJobs how long Kubernetes keeps a Job that has ended, in seconds.
	container = "oscar-container"
	keepJobs  = 30 * 24 * 3600
	// callTimeout ends one call of the API server.
	callTimeout = 30 * time.Second
	// maxLog bounds the output of a pod, in bytes.
	maxLog = 1 << 20
)

// below is the Kubernetes of the pod.
type below struct{ client kubernetes.Interface }

var _ oscarsim.Kubernetes = (*below)(nil)

func call() (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.Background(), callTimeout)
}

// PutService implements oscarsim.Kubernetes.
func (b *below) PutService(svc *wire.Service) error {
	ctx, cancel := call()
	defer cancel()
	definition, err := yaml.Marshal(svc)
	if err != nil {
		return err
	}
	meta := metav1.ObjectMeta{Name: svc.Name, Labels: labels(svc)}
	configMaps := b.client.CoreV1().ConfigMaps(svc.Namespace)
	if err := put(ctx, &corev1.ConfigMap{ObjectMeta: meta, Data: map[string]string{"FDL.yaml": string(definition), "script.sh": svc.Script}},
		configMaps.Create, configMaps.Update); err != nil {
		return err
	}
	pod, err := podOf(svc, "", "")
	if err != nil {
		return err
	}
	templates := b.client.CoreV1().PodTemplates(svc.Namespace)
	return put(ctx, &corev1.PodTemplate{ObjectMeta: meta, Template: pod}, templates.Create, templates.Update)
}

// put makes an object or replaces it.
func put[T any](ctx context.Context, object T,
	create func(context.Context, T, metav1.CreateOptions) (T, error), update func(context.Context, T, metav1.UpdateOptions) (T, error),
) error {
	_, err := create(ctx, object, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		_, err = update(ctx, object, metav1.UpdateOptions{})
	}
	return err
}

// DeleteService implements oscarsim.Kubernetes.
func (b *below) DeleteService(namespace, name string) error {
	ctx, cancel := call()
	defer cancel()
	return errors.Join(
		gone(b.client.CoreV1().PodTemplates(namespace).Delete(ctx, name, metav1.DeleteOptions{})),
		gone(b.client.CoreV1().ConfigMaps(namespace).Delete(ctx, name, metav1.DeleteOptions{})),
	)
}

// gone takes what is not there for deleted.
func gone(err error) error {
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

// PutSecret implements oscarsim.Kubernetes.
func (b *below) PutSecret(namespace, name string, data map[string]string) error {
	ctx, cancel := call()
	defer cancel()
	secrets := b.client.CoreV1().Secrets(namespace)
	return put(ctx, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: name}, StringData: data}, secrets.Create, secrets.Update)
}

// DeleteSecret implements oscarsim.Kubernetes.
func (b *below) DeleteSecret(namespace, name string) error {
	ctx, cancel := call()
	defer cancel()
	return gone(b.client.CoreV1().Secrets(namespace).Delete(ctx, name, metav1.DeleteOptions{}))
}

// CreateJob implements oscarsim.Kubernetes.
func (b *below) CreateJob(svc *wire.Service, name, event string) error {
	ctx, cancel := call()
	defer cancel()
	pod, err := podOf(svc, name, event)
	if err != nil {
		return err
	}
	_, err = b.client.BatchV1().Jobs(svc.Namespace).Create(ctx, &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: pod.Labels, Annotations: pod.Annotations},
		Spec:       batchv1.JobSpec{BackoffLimit: new(int32), TTLSecondsAfterFinished: new(int32(keepJobs)), Template: pod},
	}, metav1.CreateOptions{})
	return err
}

// podOf is the pod of a Job, or of the service's template.
func podOf(svc *wire.Service, job, event string) (corev1.PodTemplateSpec, error) {
	limits := corev1.ResourceList{}
	for name, text := range map[corev1.ResourceName]string{corev1.ResourceCPU: svc.CPU, corev1.ResourceMemory: svc.Memory} {
		if text == "" {
			continue
		}
		q, err := resource.ParseQuantity(text)
		if err != nil {
			return corev1.PodTemplateSpec{}, err
		}
		limits[name] = q
	}
	c := corev1.Container{
		Name: container, Image: svc.Image, ImagePullPolicy: corev1.PullIfNotPresent,
		Resources: corev1.ResourceRequirements{Limits: limits, Requests: limits},
	}
	for _, name := range slices.Sorted(maps.Keys(svc.Environment.Vars)) {
		c.Env = append(c.Env, corev1.EnvVar{Name: name, Value: svc.Environment.Vars[name]})
	}
	if len(svc.Environment.Secrets) > 0 {
		c.EnvFrom = []corev1.EnvFromSource{{SecretRef: &corev1.SecretEnvSource{LocalObjectReference: corev1.LocalObjectReference{Name: svc.Name}}}}
	}
	meta := metav1.ObjectMeta{Labels: labels(svc)}
	if job != "" {
		meta.Annotations = svc.Annotations
		c.Env = append(c.Env, corev1.EnvVar{Name: "EVENT", Value: event}, corev1.EnvVar{Name: "JOB_UUID", Value: job}, corev1.EnvVar{Name: "RESOURCE_ID", Value: "kube"})
	}
	return corev1.PodTemplateSpec{ObjectMeta: meta, Spec: corev1.PodSpec{RestartPolicy: corev1.RestartPolicyNever, Containers: []corev1.Container{c}}}, nil
}

// labels are those that OSCAR finds a service and its Jobs by, among the service's own.
func labels(svc *wire.Service) map[string]string {
	out := map[string]string{}
	maps.Copy(out, svc.Labels)
	out[wire.ServiceLabel] = svc.Name
	return out
}

// DeleteJob implements oscarsim.Kubernetes.
func (b *below) DeleteJob(namespace, name string) error {
	ctx, cancel := call()
	defer cancel()
	return gone(b.client.BatchV1().Jobs(namespace).Delete(ctx, name, metav1.DeleteOptions{PropagationPolicy: new(metav1.DeletePropagationBackground)}))
}

// Jobs implements oscarsim.Kubernetes.
func (b *below) Jobs(namespace string) ([]oscarsim.KubernetesJob, error) {
	ctx, cancel := call()
	defer cancel()
	jobs, err := b.client.BatchV1().Jobs(namespace).List(ctx, metav1.ListOptions{LabelSelector: wire.ServiceLabel})
	if err != nil {
		return nil, err
	}
	pods, err := b.pods(ctx, namespace, wire.ServiceLabel)
	if err != nil {
		return nil, err
	}
	out := make([]oscarsim.KubernetesJob, 0, len(jobs.Items))
	for _, j := range jobs.Items {
		if j.DeletionTimestamp != nil {
			continue
		}
		k := oscarsim.KubernetesJob{
			Name: j.Name, Service: j.Labels[wire.ServiceLabel], Created: j.CreationTimestamp.UTC(), Status: oscarsim.JobSuspended,
		}
		for _, e := range j.Spec.Template.Spec.Containers[0].Env {
			if e.Name == "EVENT" {
				k.Event = e.Value
			}
		}
		if p := pods[j.Name]; p != nil {
			k.Status = string(p.Status.Phase)
			k.Started, k.Finished = times(p)
		}
		out = append(out, k)
	}
	return out, nil
}

// times are when the container of a pod started and ended.
func times(p *corev1.Pod) (started, finished time.Time) {
	for _, c := range p.Status.ContainerStatuses {
		switch {
		case c.State.Running != nil:
			started = c.State.Running.StartedAt.UTC()
		case c.State.Terminated != nil:
			started, finished = c.State.Terminated.StartedAt.UTC(), c.State.Terminated.FinishedAt.UTC()
		}
	}
	return started, finished
}

// pods are the newest of each Job, by its name.
func (b *below) pods(ctx context.Context, namespace, selector string) (map[string]*corev1.Pod, error) {
	list, err := b.client.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{LabelSelector: selector})
	if err != nil {
		return nil, err
	}
	newest := map[string]*corev1.Pod{}
	for i := range list.Items {
		p := &list.Items[i]
		name := p.Labels[batchv1.JobNameLabel]
		if old := newest[name]; old == nil || old.CreationTimestamp.Before(&p.CreationTimestamp) {
			newest[name] = p
		}
	}
	return newest, nil
}

// Log implements oscarsim.Kubernetes.
func (b *below) Log(namespace, name string) (string, error) {
	ctx, cancel := call()
	defer cancel()
	pods, err := b.pods(ctx, namespace, batchv1.JobNameLabel+"="+name)
	if err != nil {
		return "", err
	}
	p := pods[name]
	if p == nil {
		return "", fmt.Errorf("the Job %s has no pod", name)
	}
	stream, err := b.client.CoreV1().Pods(namespace).GetLogs(p.Name, &corev1.PodLogOptions{Container: container, LimitBytes: new(int64(maxLog))}).Stream(ctx)
	if err != nil {
		return "", err
	}
	defer stream.Close()
	var text strings.Builder
	if _, err := io.Copy(&text, io.LimitReader(stream, maxLog)); err != nil {
		return "", err
	}
	return text.String(), nil
}
