package kube_test

import (
	"context"
	"errors"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/oscarfed/oscarfed/syncer/kube"
	"github.com/oscarfed/oscarfed/test/kubetest"
)

func TestSystemUIDIdentifiesTheCluster(t *testing.T) {
	t.Parallel()
	client := open(t)
	ns, err := shared.Cluster(t).Client().CoreV1().Namespaces().Get(t.Context(), metav1.NamespaceSystem, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if got, err := client.SystemUID(t.Context()); err != nil || got != string(ns.UID) {
		t.Errorf("%q, %v; want %q", got, err, ns.UID)
	}
}

func TestSecretLeftTellsWithoutReading(t *testing.T) {
	t.Parallel()
	client, service := open(t), name(t)
	admin := shared.Cluster(t).Client().CoreV1()
	const owner = "62bb11b4abcdef@egi.eu"
	for _, step := range []struct {
		what string
		do   func() error
		want bool
	}{
		{what: "the owner has no namespace yet", do: func() error { return nil }},
		{what: "his namespace is empty", do: func() error {
			shared.Cluster(t).Namespace(t, kube.Namespace(kube.ServicesNamespace, owner))
			return nil
		}},
		{what: "one is left in the administrator's namespace", do: func() error {
			_, err := admin.Secrets(kube.ServicesNamespace).Create(t.Context(), secret(service), metav1.CreateOptions{})
			return err
		}},
		{what: "one is left in his", want: true, do: func() error {
			_, err := admin.Secrets("oscar-svc-62bb11b4").Create(t.Context(), secret(service), metav1.CreateOptions{})
			return err
		}},
	} {
		if err := step.do(); err != nil {
			t.Fatal(err)
		}
		if got, err := client.SecretLeft(t.Context(), owner, service); err != nil || got != step.want {
			t.Errorf("%s: %v, %v; want %v", step.what, got, err, step.want)
		}
	}
	secrets, err := admin.Secrets("oscar-svc-62bb11b4").List(t.Context(), metav1.ListOptions{FieldSelector: "metadata.name=" + service})
	if err != nil || len(secrets.Items) != 1 || secrets.Items[0].StringData["k"] != "" || string(secrets.Items[0].Data["k"]) != "v" {
		t.Errorf("the question changed something: %v, %v", secrets.Items, err)
	}
}

func secret(name string) *corev1.Secret {
	return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: name}, StringData: map[string]string{"k": "v"}}
}

// define makes what OSCAR keeps a definition in.
func define(t *testing.T, namespace, service string) *corev1.ConfigMap {
	t.Helper()
	m, err := shared.Cluster(t).Client().CoreV1().ConfigMaps(namespace).Create(t.Context(), &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: service, Labels: map[string]string{"oscar_service": service}},
		Data:       map[string]string{"script.sh": "true"},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func TestHealMakesThePodTemplateThatIsMissing(t *testing.T) {
	t.Parallel()
	client, service := open(t), name(t)
	cluster := shared.Cluster(t)
	namespace := cluster.Namespace(t, "oscar-svc-healed")
	if err := client.Heal(t.Context(), service); err == nil {
		t.Error("a service that is nowhere was healed")
	}
	definition := define(t, namespace, service)
	for range 2 { // the second finds it there
		if err := client.Heal(t.Context(), service); err != nil {
			t.Fatal(err)
		}
	}
	templates := cluster.Client().CoreV1().PodTemplates(namespace)
	if _, err := templates.Get(t.Context(), service, metav1.GetOptions{}); err != nil {
		t.Fatal(err)
	}
	// Where the ConfigMap goes in another way, nothing keeps the name taken.
	if err := cluster.Client().CoreV1().ConfigMaps(namespace).Delete(t.Context(), definition.Name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	kubetest.Eventually(t, "the PodTemplate is collected", func() bool {
		_, err := templates.Get(t.Context(), service, metav1.GetOptions{})
		return apierrors.IsNotFound(err)
	})
}

func TestHealLeavesAServiceThatIsThereTwiceAlone(t *testing.T) {
	t.Parallel()
	client, service := open(t), name(t)
	cluster := shared.Cluster(t)
	namespaces := []string{cluster.Namespace(t, "oscar-svc-twice1"), cluster.Namespace(t, "oscar-svc-twice2")}
	for _, namespace := range namespaces {
		define(t, namespace, service)
	}
	if err := client.Heal(t.Context(), service); err == nil {
		t.Error("it was healed in one of them")
	}
	for _, namespace := range namespaces {
		if list, err := cluster.Client().CoreV1().PodTemplates(namespace).List(t.Context(), metav1.ListOptions{}); err != nil || len(list.Items) > 0 {
			t.Errorf("%s has %d PodTemplates (%v)", namespace, len(list.Items), err)
		}
	}
}

// TestACallWithoutTheRightIsDenied: that is told from what may pass by itself.
func TestACallWithoutTheRightIsDenied(t *testing.T) {
	t.Parallel()
	cluster := shared.Cluster(t)
	client, err := kube.New(cluster.ServiceAccount(t, "nobodys", "nobody"), kube.Config{Logger: quiet(t)})
	if err != nil {
		t.Fatal(err)
	}
	for what, call := range map[string]func(context.Context) error{
		"uid":    func(ctx context.Context) error { _, err := client.SystemUID(ctx); return err },
		"secret": func(ctx context.Context) error { _, err := client.SecretLeft(ctx, "", "s"); return err },
		"heal":   func(ctx context.Context) error { return client.Heal(ctx, "s") },
		"token":  func(ctx context.Context) error { _, err := client.Token(ctx, "", "f"); return err },
		"put": func(ctx context.Context) error {
			return client.PutToken(ctx, "", "f", kube.Token{Refresh: "r", Serial: 1})
		},
	} {
		if err := call(t.Context()); !errors.Is(err, kube.ErrDenied) {
			t.Errorf("%s: %v; want denied", what, err)
		}
	}
}

// TestOpenOutsideOfKubernetes: no pod, no kubeconfig.
func TestOpenOutsideOfKubernetes(t *testing.T) {
	t.Setenv("KUBERNETES_SERVICE_HOST", "")
	if _, err := kube.Open(kube.Config{}); !errors.Is(err, kube.ErrAbsent) {
		t.Errorf("%v; want ErrAbsent", err)
	}
	if _, err := kube.Open(kube.Config{Kubeconfig: "/does/not/exist"}); err == nil || errors.Is(err, kube.ErrAbsent) {
		t.Errorf("a kubeconfig that is not there: %v", err)
	}
}

// change touches a definition as OSCAR's PUT does.
func change(ctx context.Context, client kubernetes.Interface, m *corev1.ConfigMap, script string) error {
	m = m.DeepCopy()
	m.Data["script.sh"], m.ResourceVersion = script, ""
	_, err := client.CoreV1().ConfigMaps(m.Namespace).Update(ctx, m, metav1.UpdateOptions{})
	return err
}

// plain is a ConfigMap that is no definition.
func plain(name string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}}
}
