package kube

import (
	"context"
	"errors"
	"fmt"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
)

const (
	// jobPage is how many Jobs, or pods, one request lists: with the largest events that
	// a job of ours may have, an answer has 20 MB.
	jobPage = 200
	// jobListTimeout ends a list of many pages. An API server gives the rest of a list
	// for at least 5 minutes.
	jobListTimeout = 2 * time.Minute
	// jobListTries is how often a list is begun again that the API server broke off.
	jobListTries = 3
)

// ErrNoService says that Kubernetes has no definition of a service.
var ErrNoService = errors.New("there is no definition of the service")

// JobLister lists the Jobs of services.
type JobLister interface {
	// Jobs are all Jobs of a service by name, whether they have a pod or not: what was
	// made before the call is among them, unless it was deleted. ErrNoService when the
	// service is not defined here.
	Jobs(ctx context.Context, service string) (map[string]JobStatus, error)
}

// Jobs implements JobLister.
func (Absent) Jobs(context.Context, string) (map[string]JobStatus, error) { return nil, ErrAbsent }

// JobPhase is the phase of a Job.
type JobPhase string

// The phases. The first two are ends, and do not change any more.
const (
	JobSucceeded JobPhase = "succeeded"
	JobFailed    JobPhase = "failed"
	// JobSuspended: no pod is to be made of it.
	JobSuspended JobPhase = "suspended"
	// JobPending and JobRunning are as its pod says.
	JobPending JobPhase = "pending"
	JobRunning JobPhase = "running"
	// JobUnclear: it has not ended, and has no pod yet, none any more, or one on a node that does
	// not answer.
	JobUnclear JobPhase = "unclear"
)

// JobStatus is the status of a Job.
type JobStatus struct {
	Phase JobPhase
	// Started is when its container was, as long as there is a pod to tell, and Finished
	// when that, or else the Job, ended. By the cluster's clock, to the second.
	Started, Finished time.Time
	// Pod is the state that its pod, or else the Job, reports.
	Pod PodState
}

// Jobs implements JobLister by lists without a resourceVersion: such a list is as new as
// the call, and its further pages are of the revision of the first. An informer's cache is
// as new as the last event that it received: it may lack what was just made.
func (c *Client) Jobs(ctx context.Context, service string) (map[string]JobStatus, error) {
	ctx, cancel := context.WithTimeout(ctx, jobListTimeout)
	defer cancel()
	namespaces, err := c.definedIn(ctx, service)
	if err != nil {
		return nil, err
	}
	all := map[string]JobStatus{}
	for _, namespace := range namespaces {
		var jobs map[string]*batchv1.Job
		err := readPages(ctx, func() { jobs = map[string]*batchv1.Job{} }, func(ctx context.Context, o metav1.ListOptions) (string, error) {
			o.LabelSelector = labels.Set{serviceLabel: service}.String()
			list, err := c.lists.BatchV1().Jobs(namespace).List(ctx, o)
			if err != nil {
				return "", err
			}
			for i := range list.Items {
				j := &list.Items[i]
				j.Spec.Template, j.ManagedFields = corev1.PodTemplateSpec{}, nil // with the event
				jobs[j.Name] = j
			}
			return list.Continue, nil
		})
		if err != nil {
			return nil, failed("Jobs of service "+service, err)
		}
		// The pods are listed after the Jobs: a Job without one had none when it was read, or has
		// lost it since.
		pods, err := c.podsOf(ctx, namespace, service)
		if err != nil {
			return nil, failed("pods of service "+service, err)
		}
		if err := c.askEvents(ctx, namespace, pods); err != nil {
			return nil, err
		}
		for name, job := range jobs {
			all[name] = statusOf(job, pods[string(job.UID)])
		}
	}
	return all, nil
}

// definedIn are the namespaces in which a service is defined; as a rule it is one. A Job
// in another namespace is no Job of the service, also with its label.
func (c *Client) definedIn(ctx context.Context, service string) ([]string, error) {
	what := "ConfigMap of service " + service
	ctx, cancel := c.call(ctx)
	defer cancel()
	list, err := c.metadata.Resource(configMaps).List(ctx, metav1.ListOptions{
		LabelSelector: labels.Set{serviceLabel: service}.String(),
		FieldSelector: fields.OneTermEqualSelector(metav1.ObjectNameField, service).String(),
		Limit:         jobPage,
	})
	if err != nil {
		return nil, failed(what, err)
	}
	var namespaces []string
	for i := range list.Items {
		namespaces = append(namespaces, list.Items[i].Namespace)
	}
	if len(namespaces) == 0 {
		return nil, fmt.Errorf("kubernetes: %s: %w", what, ErrNoService)
	}
	return namespaces, nil
}

// podsOf are the newest pods of the Jobs of a service, by the uids of the Jobs.
func (c *Client) podsOf(ctx context.Context, namespace, service string) (map[string]*corev1.Pod, error) {
	var pods map[string]*corev1.Pod
	err := readPages(ctx, func() { pods = map[string]*corev1.Pod{} }, func(ctx context.Context, o metav1.ListOptions) (string, error) {
		o.LabelSelector = labels.Set{serviceLabel: service}.String() + "," + batchv1.ControllerUidLabel
		list, err := c.lists.CoreV1().Pods(namespace).List(ctx, o)
		if err != nil {
			return "", err
		}
		for i := range list.Items {
			p := &list.Items[i]
			job := ownerOf(p)
			if before := pods[job]; job != "" && (before == nil || before.CreationTimestamp.Before(&p.CreationTimestamp)) {
				p.Spec, p.ManagedFields = lightSpec(&p.Spec), nil
				pods[job] = p
			}
		}
		return list.Continue, nil
	})
	return pods, err
}

// readPages reads all pages of a list. It begins again when the API server has compacted the
// revision of the first page.
func readPages(ctx context.Context, begin func(), page func(context.Context, metav1.ListOptions) (next string, err error)) error {
	for try := 1; ; try++ {
		begin()
		next, err := "", error(nil)
		for first := true; first || next != ""; first = false {
			next, err = onePage(ctx, metav1.ListOptions{Limit: jobPage, Continue: next}, page)
			if err != nil {
				break
			}
		}
		if err == nil || !apierrors.IsResourceExpired(err) || try == jobListTries {
			return err
		}
	}
}

func onePage(ctx context.Context, o metav1.ListOptions, page func(context.Context, metav1.ListOptions) (string, error)) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	return page(ctx, o)
}

// statusOf is the status of a Job. The conditions of the Job, not its pod, say whether it has ended:
// an eviction, or the end of a node, deletes pods of ended Jobs, too.
func statusOf(j *batchv1.Job, pod *corev1.Pod) JobStatus {
	var s JobStatus
	if pod != nil {
		s.Started, s.Finished = ranFrom(pod)
		s.Pod = stateOf(pod)
	}
	s.Pod.Offered = markOf(&j.ObjectMeta).Holding()
	for _, c := range j.Status.Conditions {
		if c.Status != corev1.ConditionTrue || c.Type != batchv1.JobComplete && c.Type != batchv1.JobFailed {
			continue
		}
		s.Phase = JobFailed
		if c.Type == batchv1.JobComplete {
			s.Phase = JobSucceeded
		}
		if s.Finished.IsZero() {
			s.Finished = c.LastTransitionTime.Time
		}
		if s.Phase == JobFailed && s.Pod.Reason == "" {
			s.Pod.Reason, s.Pod.Message = c.Reason, c.Message
		}
		return s
	}
	s.Finished = time.Time{}
	switch {
	case pod != nil && pod.Status.Phase == corev1.PodRunning:
		s.Phase = JobRunning
	case isTrue(j.Spec.Suspend):
		return JobStatus{Phase: JobSuspended}
	case pod != nil && pod.Status.Phase == corev1.PodPending:
		return JobStatus{Phase: JobPending, Pod: s.Pod}
	default:
		s.Phase = JobUnclear
	}
	return s
}

// ranFrom is when the container of a pod was started and ended; zero when it was not.
func ranFrom(p *corev1.Pod) (started, finished time.Time) {
	for _, c := range p.Status.ContainerStatuses {
		switch {
		case c.Name != oscarContainer:
		case c.State.Running != nil:
			return c.State.Running.StartedAt.Time, time.Time{}
		case c.State.Terminated != nil:
			return c.State.Terminated.StartedAt.Time, c.State.Terminated.FinishedAt.Time
		}
	}
	if p.Status.StartTime != nil && p.Status.Phase != corev1.PodPending {
		started = p.Status.StartTime.Time
	}
	return started, time.Time{}
}
