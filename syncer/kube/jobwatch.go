package kube

import (
	"context"
	"errors"
	"fmt"
	"sync"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	batchinformers "k8s.io/client-go/informers/batch/v1"
	coreinformers "k8s.io/client-go/informers/core/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/oscarfed/oscarfed/api/oscar"
)

// byJob is the index of pods by the uid of their Job.
const byJob = "job"

// WatchJobs implements JobStore by two informers. They keep the fields that jobOf and podOf read,
// and never the event.
func (c *Client) WatchJobs(ctx context.Context, seen func(JobKey, *Job)) error {
	if err := c.mayWatchJobs(ctx); err != nil {
		return err
	}
	ctx = c.logging(ctx)
	jobs := batchinformers.NewFilteredJobInformer(c.kube, metav1.NamespaceAll, 0, cache.Indexers{},
		func(o *metav1.ListOptions) { o.LabelSelector = serviceLabel })
	pods := coreinformers.NewFilteredPodInformer(c.kube, metav1.NamespaceAll, 0, cache.Indexers{byJob: indexByJob},
		func(o *metav1.ListOptions) { o.LabelSelector = serviceLabel + "," + batchv1.ControllerUidLabel })
	w := &jobWatch{client: c, jobs: jobs, pods: pods, seen: seen}
	_, jobErr := jobs.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: w.job, UpdateFunc: func(_, now any) { w.job(now) }, DeleteFunc: w.job,
	})
	_, podErr := pods.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: w.pod, UpdateFunc: func(_, now any) { w.pod(now) }, DeleteFunc: w.pod,
	})
	err := errors.Join(jobs.SetTransform(lightJob), pods.SetTransform(lightPod), jobErr, podErr)
	if err != nil {
		return fmt.Errorf("kubernetes: watch of Jobs: %w", err)
	}
	var all sync.WaitGroup
	defer all.Wait()
	all.Go(func() { pods.RunWithContext(ctx) })
	// Pods first, so that each Job is reported once, with all its pods.
	if !cache.WaitForCacheSync(ctx.Done(), pods.HasSynced) {
		return nil
	}
	jobs.RunWithContext(ctx)
	return nil
}

// mayWatchJobs makes the first requests of the informers: those would retry without end.
func (c *Client) mayWatchJobs(ctx context.Context) error {
	ctx, cancel := c.call(ctx)
	defer cancel()
	options := metav1.ListOptions{LabelSelector: serviceLabel, Limit: 1}
	if _, err := c.kube.BatchV1().Jobs(metav1.NamespaceAll).List(ctx, options); err != nil {
		return failed("list of Jobs", err)
	}
	if _, err := c.kube.CoreV1().Pods(metav1.NamespaceAll).List(ctx, options); err != nil {
		return failed("list of pods", err)
	}
	return nil
}

// jobWatch puts Jobs and their pods together.
type jobWatch struct {
	client     *Client
	jobs, pods cache.SharedIndexInformer
	// mu serialises the calls of seen, each with the newest Job.
	mu   sync.Mutex
	seen func(JobKey, *Job)
}

// job handles an event of a Job.
func (w *jobWatch) job(obj any) {
	if gone, ok := obj.(cache.DeletedFinalStateUnknown); ok {
		obj = gone.Obj
	}
	if j, ok := obj.(*batchv1.Job); ok {
		w.notify(JobKey{j.Namespace, j.Name})
	}
}

// pod handles an event of a pod.
func (w *jobWatch) pod(obj any) {
	if gone, ok := obj.(cache.DeletedFinalStateUnknown); ok {
		obj = gone.Obj
	}
	p, ok := obj.(*corev1.Pod)
	if !ok {
		return
	}
	if o := metav1.GetControllerOf(p); o != nil && ownerOf(p) != "" {
		w.notify(JobKey{p.Namespace, o.Name})
	}
}

func (w *jobWatch) notify(key JobKey) {
	if !w.client.isServiceNamespace(key.Namespace) {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	obj, exists, err := w.jobs.GetStore().GetByKey(key.String())
	j, ok := obj.(*batchv1.Job)
	if err != nil || !exists || !ok {
		w.seen(key, nil)
		return
	}
	job := jobOf(j)
	pods, err := w.pods.GetIndexer().ByIndex(byJob, job.UID)
	if err != nil {
		return // cannot happen: the index exists
	}
	for _, obj := range pods {
		if p, ok := obj.(*corev1.Pod); ok {
			job.Pods = append(job.Pods, podOf(p))
		}
	}
	w.seen(key, job)
}

func indexByJob(obj any) ([]string, error) {
	if p, ok := obj.(*corev1.Pod); ok {
		if uid := ownerOf(p); uid != "" {
			return []string{uid}, nil
		}
	}
	return nil, nil
}

// lightJob keeps the fields of a Job that jobOf reads.
func lightJob(obj any) (any, error) {
	j, ok := obj.(*batchv1.Job)
	if !ok {
		return obj, nil
	}
	spec := j.Spec.DeepCopy()
	spec.Template = corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: only(j.Spec.Template.Labels, reschedulerLabel)},
		Spec:       corev1.PodSpec{SchedulingGates: spec.Template.Spec.SchedulingGates, Tolerations: spec.Template.Spec.Tolerations},
	}
	return &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{
			Name: j.Name, Namespace: j.Namespace, UID: j.UID, ResourceVersion: j.ResourceVersion, Generation: j.Generation,
			CreationTimestamp: j.CreationTimestamp, DeletionTimestamp: j.DeletionTimestamp,
			Labels:      only(j.Labels, serviceLabel, queueLabel, reschedulerLabel),
			Annotations: only(j.Annotations, oscar.AnnotationUID, markAnnotation),
		},
		Spec: *spec, Status: batchv1.JobStatus{Conditions: j.Status.Conditions, Active: j.Status.Active},
	}, nil
}

// lightPod keeps the fields of a pod that podOf and ownerOf read.
func lightPod(obj any) (any, error) {
	p, ok := obj.(*corev1.Pod)
	if !ok {
		return obj, nil
	}
	spec := lightSpec(&p.Spec)
	spec.SchedulingGates = p.Spec.SchedulingGates
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name: p.Name, Namespace: p.Namespace, UID: p.UID, ResourceVersion: p.ResourceVersion,
			CreationTimestamp: p.CreationTimestamp, DeletionTimestamp: p.DeletionTimestamp, OwnerReferences: p.OwnerReferences,
		},
		Spec:   spec,
		Status: corev1.PodStatus{Phase: p.Status.Phase},
	}, nil
}

// only copies some of a map.
func only(from map[string]string, keys ...string) map[string]string {
	to := map[string]string{}
	for _, k := range keys {
		if v, ok := from[k]; ok {
			to[k] = v
		}
	}
	return to
}
