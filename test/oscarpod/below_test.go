package main

import (
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/oscarfed/oscarfed/internal/oscarsim"
	"github.com/oscarfed/oscarfed/internal/oscarsim/contract"
	"github.com/oscarfed/oscarfed/test/kubetest"
)

var shared = kubetest.Shared{Config: kubetest.Config{Controllers: true}}

func TestMain(m *testing.M) { os.Exit(shared.Main(m)) }

// TestContract: with services, Secrets and Jobs in a real Kubernetes the OSCAR answers as without, and leaves nothing
// there.
func TestContract(t *testing.T) {
	const namespace = "contract"
	cluster := shared.Cluster(t)
	cluster.Namespace(t, namespace)
	cluster.Namespace(t, "oscar") // which one case names
	sim := oscarsim.New(oscarsim.Config{
		ClusterID: "contract", User: "oscar", Password: "secret", ServicesNamespace: namespace, Kubernetes: &below{cluster.Client()},
	})
	srv := httptest.NewServer(sim.Handler())
	t.Cleanup(func() {
		sim.Kill()
		srv.Close()
	})
	t.Run("suite", func(t *testing.T) {
		contract.Run(t, contract.Target{URL: srv.URL, User: "oscar", Password: "secret", Prefix: "ct0", Client: &http.Client{Timeout: time.Minute}})
	})
	api := cluster.Client()
	var left []string
	add := func(kind string, items int, err error) {
		if err != nil {
			t.Fatal(err)
		}
		if items > 0 {
			left = append(left, kind)
		}
	}
	configMaps, err := api.CoreV1().ConfigMaps(namespace).List(t.Context(), metav1.ListOptions{LabelSelector: "oscar_service"})
	add("ConfigMaps", len(configMaps.Items), err)
	templates, err := api.CoreV1().PodTemplates(namespace).List(t.Context(), metav1.ListOptions{})
	add("PodTemplates", len(templates.Items), err)
	// OSCAR never takes the keys of an origin away.
	secrets, err := api.CoreV1().Secrets(namespace).List(t.Context(), metav1.ListOptions{})
	add("Secrets", len(slices.DeleteFunc(secrets.Items, func(s corev1.Secret) bool { return strings.Contains(s.Name, "-origin-minio-") })), err)
	jobs, err := api.BatchV1().Jobs(namespace).List(t.Context(), metav1.ListOptions{})
	add("Jobs", len(jobs.Items), err)
	if len(left) > 0 {
		t.Errorf("left in Kubernetes: %s", strings.Join(left, ", "))
	}
}

// TestAJobGoesAsItsPod: what the node says of the pod is what OSCAR says of the Job, and a Job that somebody else
// deleted is gone.
func TestAJobGoesAsItsPod(t *testing.T) {
	const namespace = "pods"
	cluster := shared.Cluster(t)
	cluster.Namespace(t, namespace)
	sim := oscarsim.New(oscarsim.Config{User: "oscar", Password: "secret", ServicesNamespace: namespace, Kubernetes: &below{cluster.Client()}})
	srv := httptest.NewServer(sim.Handler())
	t.Cleanup(func() {
		sim.Kill()
		srv.Close()
	})
	ask := func(path, body, bearer string) int {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, srv.URL+path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		req.SetBasicAuth("oscar", "secret")
		if bearer != "" {
			req.Header.Set("Authorization", "Bearer "+bearer)
			req.Header.Set("X-Delegated-Job-ID", "work-1")
		}
		resp, err := srv.Client().Do(req)
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		return resp.StatusCode
	}
	const service = `{"name":"work","image":"example.org/work","script":"true","cpu":"0.5","environment":{"variables":{"GREETING":"hello"}}}`
	if status := ask("/system/services", service, ""); status != 201 {
		t.Fatalf("create: %d", status)
	}
	made, _ := sim.Service("work")
	token := made.Token
	if status := ask("/job/work", `{"n":1}`, token); status != 201 {
		t.Fatalf("job: %d", status)
	}
	api := cluster.Client()
	var pod corev1.Pod
	kubetest.Eventually(t, "the Job has a pod", func() bool {
		list, err := api.CoreV1().Pods(namespace).List(t.Context(), metav1.ListOptions{LabelSelector: "oscar_service=work"})
		if err != nil {
			t.Fatal(err)
		}
		if len(list.Items) == 1 {
			pod = list.Items[0]
		}
		return len(list.Items) == 1
	})
	env := map[string]string{}
	for _, e := range pod.Spec.Containers[0].Env {
		env[e.Name] = e.Value
	}
	if env["EVENT"] != `{"n":1}` || env["GREETING"] != "hello" || pod.Spec.Containers[0].Resources.Requests.Cpu().MilliValue() != 500 {
		t.Errorf("the pod is %+v", pod.Spec.Containers[0])
	}
	status := func(want string) func() bool {
		return func() bool {
			jobs := sim.Jobs("work")
			return len(jobs) == 1 && jobs[0].Status == want && jobs[0].Event == `{"n":1}`
		}
	}
	kubetest.Eventually(t, "it waits", status(oscarsim.JobPending))
	for _, phase := range []corev1.PodPhase{corev1.PodRunning, corev1.PodSucceeded} {
		kubetest.Eventually(t, "the status of the pod is taken", func() bool {
			p, err := api.CoreV1().Pods(namespace).Get(t.Context(), pod.Name, metav1.GetOptions{})
			if err != nil {
				t.Fatal(err)
			}
			p.Status.Phase = phase
			_, err = api.CoreV1().Pods(namespace).UpdateStatus(t.Context(), p, metav1.UpdateOptions{})
			return err == nil // the controller may have changed it meanwhile
		})
		kubetest.Eventually(t, "it is "+string(phase), status(string(phase)))
	}
	if status := ask("/job/work", "again", token); status != 500 {
		t.Errorf("the same Job again: %d", status)
	}
	if err := api.BatchV1().Jobs(namespace).Delete(t.Context(), "work-1", metav1.DeleteOptions{PropagationPolicy: new(metav1.DeletePropagationBackground)}); err != nil {
		t.Fatal(err)
	}
	kubetest.Eventually(t, "OSCAR has no Job", func() bool { return len(sim.Jobs("work")) == 0 })
}
