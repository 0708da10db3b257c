package kube_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/oscarfed/oscarfed/syncer/kube"
	"github.com/oscarfed/oscarfed/test/kubetest"
)

// job is a Job as OSCAR makes it.
func job(name, service string) *batchv1.Job {
	l := map[string]string{"oscar_service": service}
	return &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: l, Annotations: map[string]string{"oscarfed/uid": "replica-1"}},
		Spec: batchv1.JobSpec{
			Suspend: new(false), BackoffLimit: new(int32(0)), TTLSecondsAfterFinished: new(int32(2592000)),
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: l},
				Spec: corev1.PodSpec{RestartPolicy: corev1.RestartPolicyNever, Containers: []corev1.Container{{
					Name: "oscar-container", Image: "example.org/work",
					Env: []corev1.EnvVar{{Name: "EVENT", Value: "the event"}},
				}}},
			},
		},
	}
}

func makeJob(t *testing.T, namespace string, j *batchv1.Job) kube.JobKey {
	t.Helper()
	if _, err := shared.Cluster(t).Client().BatchV1().Jobs(namespace).Create(t.Context(), j, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	return kube.JobKey{Namespace: namespace, Name: j.Name}
}

func read(t *testing.T, client *kube.Client, key kube.JobKey) *kube.Job {
	t.Helper()
	j, err := client.Job(t.Context(), key)
	if err != nil {
		t.Fatal(err)
	}
	return j
}

// withPod waits until the Job has its pod.
func withPod(t *testing.T, client *kube.Client, key kube.JobKey) *kube.Job {
	t.Helper()
	var j *kube.Job
	kubetest.Eventually(t, "the Job has a pod", func() bool { j = read(t, client, key); return len(j.Pods) == 1 })
	return j
}

// changed does something to the Job as it is; its controller may be quicker.
func changed(t *testing.T, client *kube.Client, key kube.JobKey, do func(j *kube.Job) error) {
	t.Helper()
	for {
		err := do(read(t, client, key))
		if err == nil {
			return
		}
		if !errors.Is(err, kube.ErrJobChanged) {
			t.Fatal(err)
		}
	}
}

func bind(t *testing.T, namespace, pod string) error {
	t.Helper()
	return shared.Cluster(t).Client().CoreV1().Pods(namespace).Bind(t.Context(), &corev1.Binding{
		ObjectMeta: metav1.ObjectMeta{Name: pod}, Target: corev1.ObjectReference{Kind: "Node", Name: "n1"},
	}, metav1.CreateOptions{})
}

// TestEitherAPodIsHeldOrItGetsANode: never both with its own images, whoever is first.
func TestEitherAPodIsHeldOrItGetsANode(t *testing.T) {
	t.Parallel()
	client, service := open(t), name(t)
	namespace := shared.Cluster(t).Namespace(t, "oscar-svc-held")
	bound := withPod(t, client, makeJob(t, namespace, job(service+"-1", service)))
	if err := bind(t, namespace, bound.Pods[0].Name); err != nil {
		t.Fatal(err)
	}
	// It was read before it had a node.
	if err := client.HoldPod(t.Context(), bound, bound.Pods[0]); !errors.Is(err, kube.ErrJobChanged) {
		t.Errorf("a pod with a node was held: %v", err)
	}
	if p := read(t, client, bound.JobKey).Pods[0]; p.Held || p.Node != "n1" {
		t.Errorf("it is %+v", p)
	}

	held := withPod(t, client, makeJob(t, namespace, job(service+"-2", service)))
	if err := client.HoldPod(t.Context(), held, held.Pods[0]); err != nil {
		t.Fatal(err)
	}
	if err := bind(t, namespace, held.Pods[0].Name); err != nil {
		t.Fatal(err)
	}
	p, err := shared.Cluster(t).Client().CoreV1().Pods(namespace).Get(t.Context(), held.Pods[0].Name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if image := p.Spec.Containers[0].Image; image != kube.HeldImage || p.Spec.NodeName != "n1" {
		t.Errorf("a node may start %s", image)
	}
	if got := read(t, client, held.JobKey).Pods[0]; !got.Held {
		t.Errorf("it is %+v", got)
	}
}

// TestAJobLeavesItsQueueOrIsResumed: never both, whoever is first, and it comes back
// with the generation that it had.
func TestAJobLeavesItsQueueOrIsResumed(t *testing.T) {
	t.Parallel()
	client, service := open(t), name(t)
	namespace := shared.Cluster(t).Namespace(t, "oscar-svc-queued")
	queued := job(service+"-1", service)
	queued.Spec.Suspend = new(true)
	queued.Labels = map[string]string{"oscar_service": service, "kueue.x-k8s.io/queue-name": "q"}
	key := makeJob(t, namespace, queued)
	var j *kube.Job
	kubetest.Eventually(t, "its controller has seen it", func() bool { j = read(t, client, key); return j.Settled })
	if j.Queue != "q" || !j.Queued() {
		t.Errorf("it is %+v", j)
	}
	leave := kube.JobChange{Mark: &kube.JobMark{Job: "j", State: kube.MarkHolding, Queue: "q"}, Queue: new("")}
	changed(t, client, key, func(now *kube.Job) error { j = now; return client.ChangeJob(t.Context(), now, leave) })
	if err := client.ChangeJob(t.Context(), j, kube.JobChange{Suspend: new(false)}); !errors.Is(err, kube.ErrJobChanged) {
		t.Errorf("it was resumed after it had left: %v", err)
	}
	j = read(t, client, key)
	if j.Queue != "" || !j.Queued() || !j.Suspended || !j.Mark.Holding() || j.Mark.Queue != "q" || j.Generation != 1 || j.Service != service {
		t.Errorf("it is %+v with mark %+v", j, j.Mark)
	}
	changed(t, client, key, func(j *kube.Job) error {
		return client.ChangeJob(t.Context(), j, kube.JobChange{Mark: &kube.JobMark{State: kube.MarkRestored}, Queue: new("q")})
	})
	if j = read(t, client, key); j.Queue != "q" || j.Mark.Holding() || j.Generation != 1 {
		t.Errorf("it is %+v with mark %+v", j, j.Mark)
	}
	changed(t, client, key, func(now *kube.Job) error {
		j = now
		return client.ChangeJob(t.Context(), now, kube.JobChange{Suspend: new(false)})
	})
	if err := client.ChangeJob(t.Context(), j, leave); !errors.Is(err, kube.ErrJobChanged) {
		t.Errorf("it left after it had been resumed: %v", err)
	}
	changed(t, client, key, func(now *kube.Job) error { j = now; return client.DeleteJob(t.Context(), now) })
	if err := client.DeleteJob(t.Context(), j); !errors.Is(err, kube.ErrJobChanged) {
		t.Errorf("it was deleted twice: %v", err)
	}
	if _, err := client.Job(t.Context(), key); !errors.Is(err, kube.ErrNoJob) {
		t.Errorf("it is read: %v", err)
	}
}

// TestWhatIsReadOfAJob: as OSCAR makes them, and as others do.
func TestWhatIsReadOfAJob(t *testing.T) {
	t.Parallel()
	client, service := open(t), name(t)
	namespace := shared.Cluster(t).Namespace(t, "oscar-svc-read")
	plain := job(service, service)
	env := &plain.Spec.Template.Spec.Containers[0].Env
	*env = append([]corev1.EnvVar{{Name: "EVENT", Value: "a variable of the service"}}, *env...)
	usual := read(t, client, makeJob(t, namespace, plain))
	if usual.Unusual != "" || usual.Event != "the event" || usual.Service != service || usual.ServiceUID != "replica-1" || usual.Generation != 1 || usual.Mark != nil {
		t.Errorf("it is %+v", usual)
	}
	for what, change := range map[string]func(j *batchv1.Job){
		"retries":    func(j *batchv1.Job) { j.Spec.BackoffLimit = new(int32(6)) },
		"two-pods":   func(j *batchv1.Job) { j.Spec.Parallelism = new(int32(2)); j.Spec.Completions = new(int32(2)) },
		"no-event":   func(j *batchv1.Job) { j.Spec.Template.Spec.Containers[0].Env = nil },
		"else":       func(j *batchv1.Job) { j.Spec.Template.Spec.Containers[0].Name = "another" },
		"controller": func(j *batchv1.Job) { j.Spec.ManagedBy = new("example.org/other") },
		"interlink": func(j *batchv1.Job) {
			j.Spec.Template.Spec.Tolerations = []corev1.Toleration{{Key: "virtual-node.interlink/no-schedule", Operator: corev1.TolerationOpExists}}
		},
	} {
		j := job(service+"-"+what, service)
		change(j)
		if got := read(t, client, makeJob(t, namespace, j)); got.Unusual == "" {
			t.Errorf("%s: it counts as ordinary", what)
		}
	}
	// OSCAR copies the annotations of a service to its Jobs: one of ours counts for nothing there.
	copied := job(service+"-copied", service)
	copied.Annotations["oscarfed/offer"] = fmt.Sprintf(`{"v":1,"uid":%q,"job":"somebody's","state":"holding"}`, usual.UID)
	if got := read(t, client, makeJob(t, namespace, copied)); got.Mark != nil {
		t.Errorf("a copied mark counts: %+v", got.Mark)
	}
	theirs := job(service+"-theirs", service)
	theirs.Labels = map[string]string{"oscar_service": service, "oscar_rescheduler": "10"}
	if got := read(t, client, makeJob(t, namespace, theirs)); !got.Rescheduler {
		t.Error("OSCAR's rescheduler is not seen")
	}
}

// TestTheEventOfAnInterLinkJobWasTakenForAnothers: OSCAR wraps it, and the attempt was refused
// although its Job ran.
func TestTheEventOfAnInterLinkJobWasTakenForAnothers(t *testing.T) {
	t.Parallel()
	client, service := open(t), name(t)
	for what, change := range map[string]func(s *corev1.PodSpec){
		"usual": func(*corev1.PodSpec) {},
		"interlink": func(s *corev1.PodSpec) {
			s.Tolerations = []corev1.Toleration{{Key: "virtual-node.interlink/no-schedule", Operator: corev1.TolerationOpExists}}
			s.Containers[0].Env[0].Value = "dGhlIGV2ZW50"
		},
	} {
		j := job(service+"-"+what, service)
		change(&j.Spec.Template.Spec)
		makeJob(t, kube.ServicesNamespace, j)
		if got, err := client.JobEvent(t.Context(), "cluster_admin", j.Name); err != nil || got != "the event" {
			t.Errorf("%s: %q, %v", what, got, err)
		}
	}
}

// TestWatchJobsTellsOfJobsAndTheirPods: in OSCAR's namespaces only.
func TestWatchJobsTellsOfJobsAndTheirPods(t *testing.T) {
	t.Parallel()
	client, service := open(t), name(t)
	cluster := shared.Cluster(t)
	namespace := cluster.Namespace(t, "oscar-svc-watching")
	makeJob(t, cluster.Namespace(t, "elsewhere"), job(service+"-elsewhere", service))
	key := makeJob(t, namespace, job(service, service))
	type news struct {
		key kube.JobKey
		job *kube.Job
	}
	ctx, cancel := context.WithCancel(t.Context())
	told, ended := make(chan news, 10000), make(chan error, 1)
	go func() { ended <- client.WatchJobs(ctx, func(k kube.JobKey, j *kube.Job) { told <- news{k, j} }) }()
	heard := func(what string, is func(news) bool) {
		t.Helper()
		kubetest.Eventually(t, what, func() bool {
			for {
				select {
				case n := <-told:
					if n.key.Namespace == "elsewhere" {
						t.Errorf("told of %s", n.key)
					}
					if n.key == key && is(n) {
						return true
					}
				default:
					return false
				}
			}
		})
	}
	heard("a pod without a node", func(n news) bool {
		return n.job != nil && n.job.Service == service && n.job.Unusual == "" && len(n.job.Pods) == 1 && n.job.Pods[0].Node == "" && !n.job.Pods[0].Held
	})
	j := withPod(t, client, key)
	if err := client.HoldPod(t.Context(), j, j.Pods[0]); err != nil {
		t.Fatal(err)
	}
	heard("a held pod", func(n news) bool { return n.job != nil && len(n.job.Pods) == 1 && n.job.Pods[0].Held })
	changed(t, client, key, func(j *kube.Job) error {
		return client.ChangeJob(t.Context(), j, kube.JobChange{Suspend: new(true), Mark: &kube.JobMark{Job: "j", State: kube.MarkHolding}})
	})
	heard("a suspended Job without pods", func(n news) bool {
		return n.job != nil && n.job.Settled && n.job.Mark.Holding() && len(n.job.Pods) == 0
	})
	changed(t, client, key, func(j *kube.Job) error { return client.DeleteJob(t.Context(), j) })
	heard("it is gone", func(n news) bool { return n.job == nil })
	cancel()
	if err := <-ended; err != nil {
		t.Errorf("the watch ended with %v", err)
	}
}

// TestASyncerChangesNoPodButToHoldIt: RBAC cannot say so, and so the policy does.
func TestASyncerChangesNoPodButToHoldIt(t *testing.T) {
	t.Parallel()
	cluster, client := installed(t), open(t)
	service := name(t)
	namespace := cluster.Namespace(t, "oscar-svc-rights")
	theirs, err := kubernetes.NewForConfig(asSyncer(t))
	if err != nil {
		t.Fatal(err)
	}
	image := func(namespace, pod, image string, dry ...string) error {
		_, err := theirs.CoreV1().Pods(namespace).Patch(t.Context(), pod, types.StrategicMergePatchType,
			fmt.Appendf(nil, `{"spec":{"containers":[{"name":"oscar-container","image":%q}]}}`, image), metav1.PatchOptions{DryRun: dry})
		return err
	}
	j := withPod(t, client, makeJob(t, namespace, job(service, service)))
	kubetest.Eventually(t, "the policy counts", func() bool { return image(namespace, j.Pods[0].Name, "example.org/evil", metav1.DryRunAll) != nil })
	elsewhere := withPod(t, client, makeJob(t, cluster.Namespace(t, "not-oscars"), job(service, service)))
	bare := job(service+"-bare", service)
	bare.Labels = map[string]string{"app": "another"}
	unlabelled := makeJob(t, namespace, bare)
	patch := func(key kube.JobKey) error {
		_, err := theirs.BatchV1().Jobs(key.Namespace).Patch(t.Context(), key.Name, types.MergePatchType, []byte(`{"spec":{"suspend":true}}`), metav1.PatchOptions{})
		return err
	}
	remove := func(key kube.JobKey) error {
		return theirs.BatchV1().Jobs(key.Namespace).Delete(t.Context(), key.Name, metav1.DeleteOptions{})
	}
	for what, refused := range map[string]error{
		"another image":                 image(namespace, j.Pods[0].Name, "example.org/evil"),
		"a pod in another's namespace":  image(elsewhere.Namespace, elsewhere.Pods[0].Name, kube.HeldImage),
		"a Job in another's namespace":  patch(elsewhere.JobKey),
		"its deletion":                  remove(elsewhere.JobKey),
		"a Job that is of no service":   patch(unlabelled),
		"the deletion of such a Job":    remove(unlabelled),
		"one that is kept from the API": client.HoldPod(t.Context(), elsewhere, elsewhere.Pods[0]),
	} {
		if !apierrors.IsInvalid(refused) && !apierrors.IsForbidden(refused) && !errors.Is(refused, kube.ErrJobRefused) {
			t.Errorf("%s: %v; want a refusal", what, refused)
		}
	}
	if err := bind(t, namespace, j.Pods[0].Name); err != nil {
		t.Fatal(err)
	}
	setPod(t, namespace, j.Pods[0].Name, corev1.PodStatus{Phase: corev1.PodRunning})
	if err := image(namespace, j.Pods[0].Name, kube.HeldImage); err == nil {
		t.Error("a pod that runs was held")
	}
	pods, err := cluster.Client().CoreV1().Pods(namespace).List(t.Context(), metav1.ListOptions{LabelSelector: labels.Set{"oscar_service": service}.String()})
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range pods.Items {
		if !strings.HasPrefix(p.Spec.Containers[0].Image, "example.org/work") {
			t.Errorf("pod %s has image %s", p.Name, p.Spec.Containers[0].Image)
		}
	}
}
