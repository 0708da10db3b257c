package kube

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/oscarfed/oscarfed/api/oscar"
)

// What OSCAR writes on the Jobs of a service, and in them, beside oscar.AnnotationUID, which it
// copies from the service.
const (
	// queueLabel names the queue of Kueue that a Job is in.
	queueLabel = "kueue.x-k8s.io/queue-name"
	// reschedulerLabel is on Jobs that OSCAR's own rescheduler may take elsewhere.
	reschedulerLabel = "oscar_rescheduler"
	// oscarContainer is the container of a service's pods, and eventVariable has the
	// event in it.
	oscarContainer = "oscar-container"
	eventVariable  = "EVENT"
	// interlinkTaint is tolerated by Jobs for an interLink node, whose EVENT is base64 of the event.
	interlinkTaint = "virtual-node.interlink/no-schedule"
)

// What we write on a Job that is offered, and in it.
const (
	// markAnnotation is the JSON of a JobMark.
	markAnnotation = "oscarfed/offer"
	// HeldImage replaces the images of a pod that is held. Upper case is in no
	// reference of an image, so a node refuses it before it asks any registry: a pod
	// that had no node when it got this image never starts anything.
	HeldImage = "oscarfed/HELD-this-job-was-offered-to-the-federation"
)

// JobKey identifies a Job.
type JobKey struct{ Namespace, Name string }

// String is namespace/name.
func (k JobKey) String() string { return k.Namespace + "/" + k.Name }

// Job is a Job of a service, with its pods.
type Job struct {
	JobKey
	UID string
	// Version is its resourceVersion: a change is made to just this version.
	Version string
	// Generation counts the changes of its spec, from 1.
	Generation int64
	// Service is the name of the service, and ServiceUID the uid of the replica in its
	// marks.
	Service, ServiceUID string
	Created             time.Time
	// Queue of Kueue that it is in; empty for none. See also JobMark.Queue.
	Queue string
	// Suspended says that no pod is to be made of it, and Settled that the Job
	// controller has seen so and counts no pod.
	Suspended, Settled bool
	// Ended says that it is complete or has failed, and Deleting that it is being deleted.
	Ended, Deleting bool
	// Unusual says what it has that a Job of OSCAR does not have, or why its event cannot be
	// read; empty for an ordinary one.
	Unusual string
	// Rescheduler says that OSCAR's own rescheduler may take it.
	Rescheduler bool
	// Mark is ours; nil for none.
	Mark *JobMark
	Pods []JobPod

	// The rest is filled in when the Job was read by itself.

	// Event is what OSCAR was sent.
	Event string
	// Workload of Kueue; nil when there is none.
	Workload *Workload
}

// Queued says whether it has, or may have, a Workload: it is in a queue of Kueue, or we
// took it out of one.
func (j *Job) Queued() bool { return j.Queue != "" || j.Mark != nil && j.Mark.Queue != "" }

// JobPod is a pod of a Job.
type JobPod struct {
	Name    string
	Created time.Time
	// Node is where it is to run; empty before that is decided.
	Node string
	// Held says that its images keep it from starting anything.
	Held bool
	// Ended says that it has succeeded or failed, and Deleting that it is being deleted.
	Ended, Deleting bool
	// Ran says that its container was, or may have been, started.
	Ran bool

	version, uid     string
	containers, init []string
}

// Workload is what Kueue knows a Job by.
type Workload struct {
	Name string
	// Active is what we change, and Admitted says that Kueue has admitted it.
	Active, Admitted bool

	version string
}

// JobMark is what we write on a Job, so that a later syncer knows what was done to it. A change
// loses unknown fields of later versions.
type JobMark struct {
	V int `json:"v"`
	// UID is that of the Job: a mark that was copied from elsewhere counts for nothing.
	UID string `json:"uid"`
	// Job is what it is offered as, in the states of an offer that stands; empty in
	// MarkRestored.
	Job   string    `json:"job,omitempty"`
	State MarkState `json:"state"`
	// Suspended says that the syncer suspended it.
	Suspended bool `json:"suspended,omitempty"`
	// Workload is Kueue's, which was active and is to be so again.
	Workload string `json:"workload,omitempty"`
	// Queue is that of Kueue which we took it out of.
	Queue string `json:"queue,omitempty"`
	// Generation of the Job when it was restored: a Job with another one was changed since, and
	// may have run.
	Generation int64 `json:"generation,omitempty"`
	// Times counts how often it was offered and restored, and At is when last.
	Times int        `json:"times,omitempty"`
	At    *time.Time `json:"at,omitempty"`
}

// MarkState is the state of an offered Job.
type MarkState string

// The states of a mark.
const (
	// MarkHolding: it is, or will be, held.
	MarkHolding MarkState = "holding"
	// MarkRestoring: only its inactive Workload, and being in no queue, still hold it.
	MarkRestoring MarkState = "restoring"
	// MarkRestored: it is as it was found.
	MarkRestored MarkState = "restored"
)

// Holding says whether the mark is of an offer that stands.
func (m *JobMark) Holding() bool { return m != nil && m.State != MarkRestored }

const markVersion = 1

// maxMark bounds the annotation that is read.
const maxMark = 4 << 10

// markOf is the mark on a Job; nil when there is none that counts.
func markOf(meta *metav1.ObjectMeta) *JobMark {
	text, ok := meta.Annotations[markAnnotation]
	if !ok || len(text) > maxMark {
		return nil
	}
	m := &JobMark{}
	if err := json.Unmarshal([]byte(text), m); err != nil || m.V != markVersion || m.UID != string(meta.UID) {
		return nil
	}
	return m
}

// ErrNoJob says that there is no Job of that name.
var ErrNoJob = errors.New("there is no such Job")

// ErrJobChanged says that a Job, or what belongs to it, is not as it was read.
var ErrJobChanged = errors.New("it was changed meanwhile")

// ErrJobRefused says that Kubernetes does not accept a change: an admission policy,
// or a rule of this version.
var ErrJobRefused = errors.New("not accepted by Kubernetes")

// JobChange is what is changed of a Job at once.
type JobChange struct {
	// Mark replaces ours.
	Mark *JobMark
	// Suspend is changed unless nil.
	Suspend *bool
	// Queue is changed unless nil; an empty one takes it out of its queue.
	Queue *string
}

// JobStore is what offers need of Kubernetes.
type JobStore interface {
	// WatchJobs calls seen with every Job of a service in OSCAR's namespaces that was
	// made or changed, or a pod of which was, and with nil for one that is gone, until
	// ctx ends. Calls are one after another. It returns before ctx ends with ErrAbsent,
	// ErrDenied, or what else keeps it from beginning.
	WatchJobs(ctx context.Context, seen func(JobKey, *Job)) error
	// Job reads a Job, its pods, and its Workload when it is in a queue, as they are
	// now; ErrNoJob when there is none.
	Job(ctx context.Context, key JobKey) (*Job, error)
	// ChangeJob changes just the version of the Job that was read, or answers
	// ErrJobChanged or ErrJobRefused.
	ChangeJob(ctx context.Context, job *Job, change JobChange) error
	// HoldPod makes a pod without a node unable to start anything. It answers ErrJobChanged when
	// the pod got a node since it was read, or ErrJobRefused.
	HoldPod(ctx context.Context, job *Job, pod JobPod) error
	// HoldStuckPod replaces the images of a pod that waits at a node, so that it cannot start
	// once its node knows; ErrJobChanged when it was changed since it was read, or has run.
	HoldStuckPod(ctx context.Context, job *Job, pod JobPod) error
	// SetActive changes whether Kueue may give the Job a place, or answers
	// ErrJobChanged or ErrJobRefused.
	SetActive(ctx context.Context, job *Job, active bool) error
	// DeleteJob deletes just the version of the Job that was read, with its pods, or
	// answers ErrJobChanged.
	DeleteJob(ctx context.Context, job *Job) error
	// ServiceNamespace is the namespace of an owner's services.
	ServiceNamespace(owner string) string
}

// isServiceNamespace says whether a namespace is one of OSCAR's for services.
func (c *Client) isServiceNamespace(namespace string) bool {
	return namespace == c.cfg.Services || strings.HasPrefix(namespace, c.cfg.Services+"-")
}

// ServiceNamespace implements JobStore.
func (c *Client) ServiceNamespace(owner string) string { return Namespace(c.cfg.Services, owner) }

// jobOf reads a Job without its pods.
func jobOf(j *batchv1.Job) *Job {
	out := &Job{
		JobKey: JobKey{j.Namespace, j.Name}, UID: string(j.UID), Version: j.ResourceVersion, Generation: j.Generation,
		Service: j.Labels[serviceLabel], ServiceUID: j.Annotations[oscar.AnnotationUID],
		Created: j.CreationTimestamp.Time, Queue: j.Labels[queueLabel],
		Suspended: isTrue(j.Spec.Suspend), Deleting: j.DeletionTimestamp != nil, Unusual: unusual(&j.Spec),
		Mark: markOf(&j.ObjectMeta),
	}
	_, onJob := j.Labels[reschedulerLabel]
	_, onPod := j.Spec.Template.Labels[reschedulerLabel]
	out.Rescheduler = onJob || onPod
	for _, c := range j.Status.Conditions {
		if c.Status != corev1.ConditionTrue {
			continue
		}
		switch c.Type {
		case batchv1.JobComplete, batchv1.JobFailed, batchv1.JobFailureTarget, batchv1.JobSuccessCriteriaMet:
			out.Ended = true
		case batchv1.JobSuspended:
			out.Settled = out.Suspended && j.Status.Active == 0
		}
	}
	return out
}

// unusual says what a Job has that OSCAR does not give it. Holding a Job is safe only when it has
// one pod at a time and no retries.
func unusual(s *batchv1.JobSpec) string {
	one := func(n *int32, of int32) bool { return n != nil && *n == of }
	switch {
	case !one(s.BackoffLimit, 0):
		return "its backoffLimit is not 0"
	case !one(s.Parallelism, 1) || !one(s.Completions, 1):
		return "it has more than one pod"
	case s.ManagedBy != nil && *s.ManagedBy != batchv1.JobControllerName:
		return "another controller manages it"
	case s.PodFailurePolicy != nil || s.BackoffLimitPerIndex != nil:
		return "it has a policy for failed pods"
	case forInterlink(&s.Template.Spec):
		return "it is for an interLink node"
	}
	return ""
}

// forInterlink says whether pods are for an interLink node.
func forInterlink(s *corev1.PodSpec) bool {
	return slices.ContainsFunc(s.Tolerations, func(t corev1.Toleration) bool { return t.Key == interlinkTaint })
}

// eventOf is the event that OSCAR was sent; false when the Job does not show it.
func eventOf(s *corev1.PodSpec) (string, bool) {
	for _, c := range s.Containers {
		if c.Name != oscarContainer {
			continue
		}
		// OSCAR appends it to the service's own variables, and the last one counts.
		for _, v := range slices.Backward(c.Env) {
			if v.Name != eventVariable {
				continue
			}
			if forInterlink(s) {
				event, err := base64.StdEncoding.DecodeString(v.Value)
				return string(event), err == nil
			}
			return v.Value, v.ValueFrom == nil
		}
	}
	return "", false
}

// podOf reads a pod of a Job.
func podOf(p *corev1.Pod) JobPod {
	out := JobPod{
		Name: p.Name, Created: p.CreationTimestamp.Time, Node: p.Spec.NodeName, Held: true,
		Ended:    p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed,
		Deleting: p.DeletionTimestamp != nil, Ran: hasRun(p), version: p.ResourceVersion, uid: string(p.UID),
	}
	for _, c := range p.Spec.InitContainers {
		out.init, out.Held = append(out.init, c.Name), out.Held && c.Image == HeldImage
	}
	for _, c := range p.Spec.Containers {
		out.containers, out.Held = append(out.containers, c.Name), out.Held && c.Image == HeldImage
	}
	return out
}

// ownerOf is the uid of the Job that a pod is of; empty for others.
func ownerOf(p *corev1.Pod) string {
	if o := metav1.GetControllerOf(p); o != nil && o.Kind == "Job" && o.APIVersion == batchv1.SchemeGroupVersion.String() {
		return string(o.UID)
	}
	return ""
}

func isTrue(b *bool) bool { return b != nil && *b }
