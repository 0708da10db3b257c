package kubetest_test

import (
	"net"
	"os"
	"os/exec"
	"strings"
	"testing"

	authorizationv1 "k8s.io/api/authorization/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/oscarfed/oscarfed/test/kubetest"
)

// shared is the cluster of this package's tests.
var shared = kubetest.Shared{Config: kubetest.Config{Controllers: true}}

// abandonVar makes the test binary start a cluster and die without stopping it.
const abandonVar = "OSCARFED_KUBETEST_ABANDON"

func TestMain(m *testing.M) { os.Exit(shared.Main(m)) }

func TestAServiceAccountHasTheRightsThatWereBoundToIt(t *testing.T) {
	t.Parallel()
	cluster := shared.Cluster(t)
	namespace := cluster.Namespace(t, "rights")
	conf, err := clientcmd.BuildConfigFromFlags("", kubetest.Kubeconfig(t, cluster.ServiceAccount(t, namespace, "reader"), namespace))
	if err != nil {
		t.Fatal(err)
	}
	client, err := kubernetes.NewForConfig(conf)
	if err != nil {
		t.Fatal(err)
	}
	what := authorizationv1.ResourceAttributes{Namespace: namespace, Verb: "list", Resource: "configmaps"}
	if _, err := client.CoreV1().ConfigMaps(namespace).List(t.Context(), metav1.ListOptions{}); !apierrors.IsForbidden(err) {
		t.Errorf("before the role was bound: %v; want forbidden", err)
	}
	if cluster.Allowed(t, namespace, "reader", what) {
		t.Error("the authorizer allows what no role allows")
	}
	cluster.Apply(t, namespace, `
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: reader}
rules:
- {apiGroups: [""], resources: [configmaps], verbs: [list]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: reader}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: reader}
subjects:
- {kind: ServiceAccount, name: reader, namespace: rights}
`)
	kubetest.Eventually(t, "the role counts", func() bool {
		_, err := client.CoreV1().ConfigMaps(namespace).List(t.Context(), metav1.ListOptions{})
		return err == nil
	})
	if !cluster.Allowed(t, namespace, "reader", what) {
		t.Error("the authorizer does not allow what the role allows")
	}
}

func TestTheControllersRun(t *testing.T) {
	t.Parallel()
	cluster := shared.Cluster(t)
	namespace := cluster.Namespace(t, "controllers")
	// Pods are made with the default account, which its controller makes first.
	job := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Name: "j"}, Spec: batchv1.JobSpec{Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{
		RestartPolicy: corev1.RestartPolicyNever, Containers: []corev1.Container{{Name: "c", Image: "i"}},
	}}}}
	if _, err := cluster.Client().BatchV1().Jobs(namespace).Create(t.Context(), job, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	kubetest.Eventually(t, "the Job has a pod", func() bool {
		pods, err := cluster.Client().CoreV1().Pods(namespace).List(t.Context(), metav1.ListOptions{})
		return err == nil && len(pods.Items) == 1
	})
}

func TestNothingIsLeftOfAProcessThatDied(t *testing.T) {
	if os.Getenv(abandonVar) != "" {
		t.Logf("address: %s", shared.Cluster(t).Admin().Host)
		os.Exit(3)
	}
	t.Parallel()
	child := exec.CommandContext(t.Context(), os.Args[0], "-test.v", "-test.run=^"+t.Name()+"$")
	child.Env = append(os.Environ(), abandonVar+"=1", "TMPDIR="+t.TempDir())
	out, err := child.Output()
	_, address, ok := strings.Cut(string(out), "address: ")
	if !ok {
		t.Fatalf("the child says nothing (%v): %s", err, out)
	}
	address, _, _ = strings.Cut(address, "\n")
	kubetest.Eventually(t, "nobody listens on "+address, func() bool {
		conn, err := net.DialTimeout("tcp", address, kubetest.Patience)
		if err != nil {
			return true
		}
		_ = conn.Close()
		return false
	})
}
