package kube_test

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/oscarfed/oscarfed/syncer/kube"
	"github.com/oscarfed/oscarfed/test/kubetest"
)

func jobsOf(t *testing.T, client *kube.Client, service string) map[string]kube.JobStatus {
	t.Helper()
	jobs, err := client.Jobs(t.Context(), service)
	if err != nil {
		t.Fatal(err)
	}
	return jobs
}

// setPod is what a node says of a pod.
func setPod(t *testing.T, namespace, name string, status corev1.PodStatus) {
	t.Helper()
	pods := shared.Cluster(t).Client().CoreV1().Pods(namespace)
	kubetest.Eventually(t, "the status of the pod is taken", func() bool {
		p, err := pods.Get(t.Context(), name, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		p.Status = status
		_, err = pods.UpdateStatus(t.Context(), p, metav1.UpdateOptions{})
		return err == nil
	})
}

// TestAJobThatEndedHasEndedWhenItsPodIsGone: a node is removed with its pods, also those
// that have ended. OSCAR calls the Job suspended from then on.
func TestAJobThatEndedHasEndedWhenItsPodIsGone(t *testing.T) {
	t.Parallel()
	client, service, namespace := open(t), name(t), "oscar-svc-podless"
	define(t, shared.Cluster(t).Namespace(t, namespace), service)
	started, ended := metav1.NewTime(time.Date(2026, 11, 21, 10, 0, 5, 0, time.UTC)), metav1.NewTime(time.Date(2026, 11, 21, 10, 0, 9, 0, time.UTC))
	for end, phase := range map[kube.JobPhase]corev1.PodPhase{kube.JobSucceeded: corev1.PodSucceeded, kube.JobFailed: corev1.PodFailed} {
		j := withPod(t, client, makeJob(t, namespace, job(service+"-"+string(end), service)))
		pod := j.Pods[0].Name
		if got := jobsOf(t, client, service)[j.Name]; got != (kube.JobStatus{Phase: kube.JobPending}) {
			t.Errorf("a new Job is %+v", got)
		}
		if err := bind(t, namespace, pod); err != nil {
			t.Fatal(err)
		}
		status := corev1.PodStatus{Phase: corev1.PodRunning, StartTime: &started, ContainerStatuses: []corev1.ContainerStatus{{
			Name: "oscar-container", State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: started}},
		}}}
		setPod(t, namespace, pod, status)
		if got := jobsOf(t, client, service)[j.Name]; got.Phase != kube.JobRunning || !got.Started.Equal(started.Time) || !got.Finished.IsZero() {
			t.Errorf("a Job that runs is %+v", got)
		}
		status.Phase = phase
		status.ContainerStatuses[0].State = corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{StartedAt: started, FinishedAt: ended}}
		setPod(t, namespace, pod, status)
		kubetest.Eventually(t, "its controller has seen its end", func() bool { return jobsOf(t, client, service)[j.Name].Phase == end })
		if got := jobsOf(t, client, service)[j.Name]; !got.Started.Equal(started.Time) || !got.Finished.Equal(ended.Time) {
			t.Errorf("with its pod it is %+v", got)
		}
		pods := shared.Cluster(t).Client().CoreV1().Pods(namespace)
		if err := pods.Delete(t.Context(), pod, metav1.DeleteOptions{GracePeriodSeconds: new(int64(0))}); err != nil {
			t.Fatal(err)
		}
		kubetest.Eventually(t, "its pod is gone", func() bool { return len(read(t, client, j.JobKey).Pods) == 0 })
		if got := jobsOf(t, client, service)[j.Name]; got.Phase != end || got.Finished.IsZero() {
			t.Errorf("without its pod it is %+v, not %s", got, end)
		}
	}
}

// TestAJobMadeJustBeforeAListIsInIt: that it is not listed is why a job counts as vanished.
func TestAJobMadeJustBeforeAListIsInIt(t *testing.T) {
	t.Parallel()
	client, service, namespace := open(t), name(t), "oscar-svc-new"
	define(t, shared.Cluster(t).Namespace(t, namespace), service)
	elsewhere := shared.Cluster(t).Namespace(t, "oscar-svc-elsewhere")
	for i := range 20 {
		j := job(fmt.Sprintf("%s-%d", service, i), service)
		j.Spec.Suspend = new(true)
		key := makeJob(t, namespace, j)
		jobs := jobsOf(t, client, service)
		if jobs[key.Name].Phase != kube.JobSuspended || len(jobs) != i+1 {
			t.Fatalf("after %d Jobs were made, the list has %v", i+1, jobs)
		}
		// Somebody's Job with the label and the name, outside of the service's namespace.
		j.Name = fmt.Sprintf("%s-%d", service, i+1)
		makeJob(t, elsewhere, j)
	}
	if jobs, err := client.Jobs(t.Context(), service+"-other"); !errors.Is(err, kube.ErrNoService) {
		t.Errorf("of a service that is not there: %v, %v", jobs, err)
	}
}

// counted counts the requests of a client.
type counted struct {
	http.RoundTripper
	n *atomic.Int32
}

func (c counted) RoundTrip(r *http.Request) (*http.Response, error) {
	c.n.Add(1)
	return c.RoundTripper.RoundTrip(r)
}

// TestALongListOfJobsTakesFewCalls: Jobs are kept for a month.
func TestALongListOfJobsTakesFewCalls(t *testing.T) {
	t.Parallel()
	const retained, most = 1500, 12
	service, namespace := name(t), "oscar-svc-retained"
	var calls atomic.Int32
	conf := asSyncer(t)
	conf.Wrap(func(rt http.RoundTripper) http.RoundTripper { return counted{rt, &calls} })
	client, err := kube.New(conf, kube.Config{Logger: quiet(t)})
	if err != nil {
		t.Fatal(err)
	}
	define(t, shared.Cluster(t).Namespace(t, namespace), service)
	admin := shared.Cluster(t).Admin()
	admin.QPS = -1
	maker, err := kubernetes.NewForConfig(admin)
	if err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	numbers := make(chan int)
	for range 8 {
		all.Go(func() {
			for i := range numbers {
				// Another controller's, so that none makes pods of them.
				j := job(fmt.Sprintf("%s-%d", service, i), service)
				j.Spec.ManagedBy = new("example.org/nobody")
				if _, err := maker.BatchV1().Jobs(namespace).Create(t.Context(), j, metav1.CreateOptions{}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	for i := range retained {
		numbers <- i
	}
	close(numbers)
	all.Wait()
	began := time.Now()
	jobs := jobsOf(t, client, service)
	t.Logf("%d Jobs in %d calls and %s", len(jobs), calls.Load(), time.Since(began).Round(time.Millisecond))
	if len(jobs) != retained {
		t.Errorf("%d Jobs are listed, of %d", len(jobs), retained)
	}
	if n := calls.Load(); n > most {
		t.Errorf("it took %d calls, more than %d", n, most)
	}
}

// TestAListOfJobsThatIsBrokenOffBeginsAgain: the API server has forgotten the revision of
// its first page. What was on that page counts no more, and it does not begin for ever.
func TestAListOfJobsThatIsBrokenOffBeginsAgain(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name    string
		expires int32
		err     string
		lists   int32
	}{{"twice", 2, "", 3}, {"always", 100, "too old", 3}} {
		var lists, expired atomic.Int32
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			if r.URL.Query().Has("resourceVersion") {
				t.Errorf("%s may be answered from the past", r.URL)
			}
			answer := func(kind, version, next, items string) {
				_, _ = fmt.Fprintf(w, `{"kind":%q,"apiVersion":%q,"metadata":{"resourceVersion":"1","continue":%q},"items":[%s]}`, kind, version, next, items)
			}
			switch {
			case strings.HasSuffix(r.URL.Path, "/configmaps"):
				answer("PartialObjectMetadataList", "meta.k8s.io/v1", "", `{"metadata":{"name":"svc","namespace":"oscar-svc"}}`)
			case strings.HasSuffix(r.URL.Path, "/pods"):
				answer("PodList", "v1", "", "")
			case r.URL.Query().Get("continue") == "":
				answer("JobList", "batch/v1", "more", fmt.Sprintf(`{"metadata":{"name":"first-%d"}}`, lists.Add(1)))
			case expired.Add(1) <= tc.expires:
				w.WriteHeader(http.StatusGone)
				_, _ = w.Write([]byte(`{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Expired","message":"too old","code":410}`))
			default:
				answer("JobList", "batch/v1", "", `{"metadata":{"name":"last"}}`)
			}
		}))
		defer server.Close()
		client, err := kube.New(&rest.Config{Host: server.URL}, kube.Config{Logger: quiet(t)})
		if err != nil {
			t.Fatal(err)
		}
		jobs, err := client.Jobs(t.Context(), "svc")
		if n := lists.Load(); n != tc.lists {
			t.Errorf("%s: it was begun %d times, not %d", tc.name, n, tc.lists)
		}
		if tc.err != "" {
			if err == nil || !strings.Contains(err.Error(), tc.err) {
				t.Errorf("%s: %v, %v", tc.name, jobs, err)
			}
			continue
		}
		if _, ok := jobs[fmt.Sprintf("first-%d", tc.lists)]; err != nil || !ok || len(jobs) != 2 {
			t.Errorf("%s: %v, %v", tc.name, jobs, err)
		}
	}
}
