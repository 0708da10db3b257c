package deploy_test

import (
	"os"
	"slices"
	"strings"
	"testing"

	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/yaml"

	"github.com/oscarfed/oscarfed/syncer/kube"
	"github.com/oscarfed/oscarfed/test/kubetest"
)

// shared is the API server of this package's tests.
var shared kubetest.Shared

func TestMain(m *testing.M) { os.Exit(shared.Main(m)) }

// install gives a rendered chart to the API server, with the namespaces that it
// speaks of.
func install(t *testing.T, cluster *kubetest.Cluster, m manifest) {
	t.Helper()
	for _, r := range of[*rbacv1.Role](m) {
		cluster.Namespace(t, r.Namespace)
	}
	for _, o := range of[*corev1.ServiceAccount](m) {
		cluster.Namespace(t, o.Namespace)
	}
	cluster.Apply(t, namespace, m.text)
}

// monitors are the kinds of Prometheus' operator that the charts use, known to the API
// server by name alone.
const monitors = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: podmonitors.monitoring.coreos.com}
spec:
  group: monitoring.coreos.com
  scope: Namespaced
  names: {kind: PodMonitor, plural: podmonitors}
  versions:
  - {name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}}
`

// A real API server takes every object of the charts, strictly, and takes it again.
func TestKubernetesTakesTheCharts(t *testing.T) {
	cluster := shared.Cluster(t)
	cluster.Apply(t, "", monitors)
	helm := tool(t, "helm")
	for _, m := range manifests(t) {
		if len(m.custom) > 0 {
			kubetest.Eventually(t, "PodMonitors are known", func() bool {
				_, err := cluster.Client().Discovery().ServerResourcesForGroupVersion("monitoring.coreos.com/v1")
				return err == nil
			})
		}
		// A namespace of its own, since some are of the same names.
		own := strings.TrimSuffix(m.values, ".yaml")
		m = render(t, helm, "testdata/values/"+m.values, release, own)
		install(t, cluster, m)
		install(t, cluster, m)
		for _, w := range workloads(t, m) {
			admitted(t, cluster, own, w)
		}
	}
}

// admitted wants the API server to take a workload's pod in a namespace that asks for
// the restricted profile of pod security.
func admitted(t *testing.T, cluster *kubetest.Cluster, namespace string, w workload) {
	t.Helper()
	patch := []byte(`{"metadata":{"labels":{"pod-security.kubernetes.io/enforce":"restricted"}}}`)
	_, err := cluster.Client().CoreV1().Namespaces().Patch(t.Context(), namespace, "application/merge-patch+json", patch, metav1.PatchOptions{})
	if err != nil {
		t.Fatal(err)
	}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: w.name, Labels: w.pod.Labels}, Spec: *w.pod.Spec.DeepCopy()}
	// What the controller of a StatefulSet adds.
	for _, mount := range pod.Spec.Containers[0].VolumeMounts {
		if !slices.ContainsFunc(pod.Spec.Volumes, func(v corev1.Volume) bool { return v.Name == mount.Name }) {
			pod.Spec.Volumes = append(pod.Spec.Volumes, corev1.Volume{Name: mount.Name, VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}})
		}
	}
	_, err = cluster.Client().CoreV1().Pods(namespace).Create(t.Context(), pod, metav1.CreateOptions{
		DryRun: []string{metav1.DryRunAll}, FieldValidation: metav1.FieldValidationStrict,
	})
	if err != nil {
		t.Errorf("%s: a pod of %s: %v", namespace, w.name, err)
	}
}

// What the syncer of the chart may and may not do, asked of the API server.
func TestTheRightsOfTheChartsAccounts(t *testing.T) {
	cluster := shared.Cluster(t)
	helm := tool(t, "helm")
	const place = "rights"
	syncer := render(t, helm, "testdata/values/oscar-syncer-least.yaml", release, place)
	controlPlane := render(t, helm, "testdata/values/oscarfed-cluster.yaml", release, place)
	apart := render(t, helm, "testdata/values/oscar-syncer-apart.yaml", "apart", place)
	for _, m := range []manifest{syncer, controlPlane, apart} {
		m.text = withoutCustom(t, m)
		install(t, cluster, m)
	}
	account := only[*corev1.ServiceAccount](t, syncer).Name
	const services, users = kube.ServicesNamespace, kube.ServicesNamespace + "-user"
	type right = authorizationv1.ResourceAttributes
	may := []right{
		{Verb: "get", Resource: "namespaces", Name: metav1.NamespaceSystem},
		{Verb: "list", Resource: "configmaps"},
		{Verb: "watch", Resource: "configmaps", Namespace: users},
		{Verb: "create", Resource: "podtemplates", Namespace: users},
		{Verb: "create", Resource: "secrets", Namespace: users},
		{Verb: "get", Resource: "secrets", Namespace: users, Name: kube.TokenSecret},
		{Verb: "update", Resource: "secrets", Namespace: users, Name: kube.TokenSecret},
		{Verb: "delete", Resource: "secrets", Namespace: users, Name: kube.TokenSecret},
		{Verb: "create", Group: "coordination.k8s.io", Resource: "leases", Namespace: services},
		{Verb: "update", Group: "coordination.k8s.io", Resource: "leases", Namespace: services, Name: kube.LeaseName},
	}
	mayNot := []right{
		{Verb: "get", Resource: "secrets", Namespace: users, Name: "a-service"},
		{Verb: "get", Resource: "secrets", Namespace: place, Name: "oscar-password"},
		{Verb: "list", Resource: "secrets"},
		{Verb: "list", Resource: "secrets", Namespace: users},
		{Verb: "watch", Resource: "secrets", Namespace: users},
		{Verb: "patch", Resource: "secrets", Namespace: users, Name: kube.TokenSecret},
		{Verb: "deletecollection", Resource: "secrets", Namespace: users},
		{Verb: "get", Resource: "configmaps", Namespace: users, Name: "a-service"},
		{Verb: "update", Resource: "configmaps", Namespace: users, Name: "a-service"},
		{Verb: "delete", Resource: "podtemplates", Namespace: users, Name: "a-service"},
		{Verb: "list", Resource: "namespaces"},
		{Verb: "create", Resource: "namespaces"},
		{Verb: "create", Resource: "pods", Namespace: users},
		{Verb: "create", Resource: "pods", Subresource: "exec", Namespace: users},
		{Verb: "create", Group: "batch", Resource: "jobs", Namespace: users},
		{Verb: "create", Resource: "serviceaccounts", Subresource: "token", Namespace: place},
		{Verb: "update", Group: "coordination.k8s.io", Resource: "leases", Namespace: services, Name: "another"},
		{Verb: "create", Group: "coordination.k8s.io", Resource: "leases", Namespace: metav1.NamespaceSystem},
		{Verb: "impersonate", Resource: "users"},
		{Verb: "create", Group: "rbac.authorization.k8s.io", Resource: "rolebindings", Namespace: users},
		{Verb: "update", Group: "admissionregistration.k8s.io", Resource: "validatingadmissionpolicies"},
	}
	for _, r := range may {
		// The authorizer learns of roles a moment later.
		kubetest.Eventually(t, "the syncer may "+r.Verb+" "+r.Resource, func() bool { return cluster.Allowed(t, place, account, r) })
	}
	for _, r := range mayNot {
		if cluster.Allowed(t, place, account, r) {
			t.Errorf("the syncer may %s %s/%s %s in %q", r.Verb, r.Resource, r.Subresource, r.Name, r.Namespace)
		}
	}
	others := []struct{ namespace, account string }{{users, "default"}, {place, "default"}}
	for _, m := range []manifest{controlPlane, apart} {
		for _, a := range of[*corev1.ServiceAccount](m) {
			others = append(others, struct{ namespace, account string }{place, a.Name})
		}
	}
	for _, o := range others {
		for _, r := range append(may, mayNot...) {
			if cluster.Allowed(t, o.namespace, o.account, r) {
				t.Errorf("%s of %s may %s %s %s in %q", o.account, o.namespace, r.Verb, r.Resource, r.Name, r.Namespace)
			}
		}
	}
}

// withoutCustom is a manifest's text of the kinds that Kubernetes has itself.
func withoutCustom(t *testing.T, m manifest) string {
	t.Helper()
	var out []string
	for _, o := range m.objects {
		data, err := yaml.Marshal(o)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, string(data))
	}
	return strings.Join(out, "---\n")
}

// The chart's policy keeps the syncer from what its right to make Secrets would let it
// have: the token of any other account.
func TestTheSyncerOfTheChartMakesNoTokens(t *testing.T) {
	cluster := shared.Cluster(t)
	const place = "policy"
	m := render(t, tool(t, "helm"), "testdata/values/oscar-syncer-all.yaml", release, place)
	m.text = withoutCustom(t, m)
	install(t, cluster, m)
	const services = "services" // its values say so
	cluster.Namespace(t, services+"-user")
	client, err := kubernetes.NewForConfig(cluster.ServiceAccount(t, place, only[*corev1.ServiceAccount](t, m).Name))
	if err != nil {
		t.Fatal(err)
	}
	create := func(namespace, name string, kind corev1.SecretType, dry ...string) error {
		s := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: map[string]string{corev1.ServiceAccountNameKey: "default"}}, Type: kind}
		_, err := client.CoreV1().Secrets(namespace).Create(t.Context(), s, metav1.CreateOptions{DryRun: dry})
		return err
	}
	// Roles and policies count a moment after they were made.
	kubetest.Eventually(t, "the role counts", func() bool {
		return !apierrors.IsForbidden(create(services, "probe", corev1.SecretTypeOpaque, metav1.DryRunAll))
	})
	kubetest.Eventually(t, "the policy counts", func() bool { return create(place, "probe", corev1.SecretTypeOpaque, metav1.DryRunAll) != nil })
	if err := create(services+"-user", kube.TokenSecret, corev1.SecretTypeOpaque); err != nil {
		t.Errorf("its own Secret: %v", err)
	}
	for _, c := range []struct {
		namespace, name string
		kind            corev1.SecretType
	}{
		{metav1.NamespaceSystem, kube.TokenSecret, corev1.SecretTypeServiceAccountToken},
		{metav1.NamespaceSystem, kube.TokenSecret, corev1.SecretTypeOpaque},
		{services, kube.TokenSecret, corev1.SecretTypeServiceAccountToken},
		{services, "a-service", corev1.SecretTypeOpaque},
		{services + "x", kube.TokenSecret, corev1.SecretTypeOpaque},
		{kube.ServicesNamespace, kube.TokenSecret, corev1.SecretTypeOpaque}, // another OSCAR's
	} {
		cluster.Namespace(t, c.namespace)
		if err := create(c.namespace, c.name, c.kind); err == nil {
			t.Errorf("the syncer made %s in %s, of type %s", c.name, c.namespace, c.kind)
		}
	}
}
