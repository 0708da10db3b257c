package kube_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/oscarfed/oscarfed/syncer/kube"
	"github.com/oscarfed/oscarfed/test/kubetest"
)

type attributes = authorizationv1.ResourceAttributes

// everywhere and leading are what the syncer asks for. That each call works with these rights
// alone, the other tests of this package show: none of them has others.
var everywhere, leading = kube.Rights()

// TestTheSyncerHasTheseRightsAndNoOthers: the API server itself tells every rule that
// holds for it in a namespace. What every account has is left out.
func TestTheSyncerHasTheseRightsAndNoOthers(t *testing.T) {
	t.Parallel()
	cluster := installed(t)
	syncer, nobody := asSyncer(t), cluster.ServiceAccount(t, "nobodys", "nobody")
	for namespace, want := range map[string]map[attributes]bool{
		kube.ServicesNamespace: set(everywhere, leading),
		"oscar-svc-62bb11b4":   set(everywhere),
		metav1.NamespaceSystem: set(everywhere),
		accountNamespace:       set(everywhere),
	} {
		got := rules(t, syncer, namespace)
		for everybodys := range rules(t, nobody, namespace) {
			delete(got, everybodys)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("rights in %s (-needed +granted):\n%s", namespace, diff)
		}
	}
}

func set(lists ...[]attributes) map[attributes]bool {
	all := map[attributes]bool{}
	for _, list := range lists {
		for _, a := range list {
			all[a] = true
		}
	}
	return all
}

// rules are what an account may do in a namespace.
func rules(t *testing.T, conf *rest.Config, namespace string) map[attributes]bool {
	t.Helper()
	client, err := kubernetes.NewForConfig(conf)
	if err != nil {
		t.Fatal(err)
	}
	review, err := client.AuthorizationV1().SelfSubjectRulesReviews().Create(t.Context(), &authorizationv1.SelfSubjectRulesReview{
		Spec: authorizationv1.SelfSubjectRulesReviewSpec{Namespace: namespace},
	}, metav1.CreateOptions{})
	if err != nil || review.Status.Incomplete {
		t.Fatal(err, review.Status.EvaluationError)
	}
	all := map[attributes]bool{}
	for _, r := range review.Status.ResourceRules {
		if len(r.ResourceNames) == 0 {
			r.ResourceNames = []string{""}
		}
		for _, verb := range r.Verbs {
			for _, group := range r.APIGroups {
				for _, resource := range r.Resources {
					for _, object := range r.ResourceNames {
						all[attributes{Verb: verb, Group: group, Resource: resource, Name: object}] = true
					}
				}
			}
		}
	}
	return all
}

// TestRightsThatLackAreNamed: where an operator has left rights out, it is told which.
func TestRightsThatLackAreNamed(t *testing.T) {
	t.Parallel()
	cluster := installed(t)
	if lacks, err := open(t).Denied(t.Context()); err != nil || len(lacks) > 0 {
		t.Errorf("the syncer lacks %v: %v", lacks, err)
	}
	nobody, err := kube.New(cluster.ServiceAccount(t, "without-rights", "nobody"), kube.Config{})
	if err != nil {
		t.Fatal(err)
	}
	lacks, err := nobody.Denied(t.Context())
	want := []string{
		"batch/jobs: delete, get, list, patch, watch", "configmaps: list, watch",
		"coordination.k8s.io/leases/oscar-syncer: get, update", "coordination.k8s.io/leases: create", "events: list", "kueue.x-k8s.io/workloads: list, patch",
		"namespaces/kube-system: get", "nodes: list, watch", "pods: list, patch, watch", "podtemplates: create",
		"secrets/" + kube.TokenSecret + ": delete, get, update", "secrets: create",
	}
	if diff := cmp.Diff(want, lacks); err != nil || diff != "" {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
}

// TestNobodyOfTheUsersNamespaceReadsTheTokens: not its default account, and not one
// with the rights that OSCAR gives in a user's namespace.
func TestNobodyOfTheUsersNamespaceReadsTheTokens(t *testing.T) {
	t.Parallel()
	cluster, client := installed(t), open(t)
	const owner = "7d1e4b19c0ffee@egi.eu"
	namespace := cluster.Namespace(t, kube.Namespace(kube.ServicesNamespace, owner))
	if err := client.PutToken(t.Context(), owner, "f", kube.Token{Refresh: "r", Serial: 1}); err != nil {
		t.Fatal(err)
	}
	theirs, err := kubernetes.NewForConfig(cluster.ServiceAccount(t, namespace, "default"))
	if err != nil {
		t.Fatal(err)
	}
	secrets := theirs.CoreV1().Secrets(namespace)
	for verb, call := range map[string]func() error{
		"get":    func() error { _, err := secrets.Get(t.Context(), kube.TokenSecret, metav1.GetOptions{}); return err },
		"list":   func() error { _, err := secrets.List(t.Context(), metav1.ListOptions{}); return err },
		"watch":  func() error { _, err := secrets.Watch(t.Context(), metav1.ListOptions{}); return err },
		"delete": func() error { return secrets.Delete(t.Context(), kube.TokenSecret, metav1.DeleteOptions{}) },
	} {
		if err := call(); !apierrors.IsForbidden(err) {
			t.Errorf("%s: %v; want forbidden", verb, err)
		}
	}
}

// TestASyncerMakesNoSecretButItsOwn: RBAC cannot say so, and so the policy does. What
// it keeps out is the way from the syncer's token to any other account's.
func TestASyncerMakesNoSecretButItsOwn(t *testing.T) {
	t.Parallel()
	cluster := installed(t)
	namespace := cluster.Namespace(t, "oscar-svc-policy")
	client, err := kubernetes.NewForConfig(asSyncer(t))
	if err != nil {
		t.Fatal(err)
	}
	create := func(namespace string, s *corev1.Secret, options metav1.CreateOptions) error {
		_, err := client.CoreV1().Secrets(namespace).Create(t.Context(), s, options)
		return err
	}
	stealing := secret(kube.TokenSecret)
	stealing.Type = corev1.SecretTypeServiceAccountToken
	stealing.Annotations = map[string]string{corev1.ServiceAccountNameKey: "default"}
	dry := metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}}
	// A policy counts a moment after it was made.
	kubetest.Eventually(t, "the policy counts", func() bool { return create(accountNamespace, secret("probe"), dry) != nil })
	for what, refused := range map[string]error{
		"a service's Secret":             create(namespace, secret("service"), metav1.CreateOptions{}),
		"its own in another namespace":   create(metav1.NamespaceSystem, secret(kube.TokenSecret), metav1.CreateOptions{}),
		"one that gets another's token":  create(namespace, stealing, metav1.CreateOptions{}),
		"a question in another's":        create(metav1.NamespaceSystem, secret("service"), dry),
		"a PodTemplate in another's":     template(t, client, metav1.NamespaceSystem),
		"a namespace that looks like it": create(cluster.Namespace(t, "oscar-svcs"), secret(kube.TokenSecret), metav1.CreateOptions{}),
	} {
		if !apierrors.IsInvalid(refused) && !apierrors.IsForbidden(refused) {
			t.Errorf("%s: %v; want a refusal", what, refused)
		}
	}
	for what, err := range map[string]error{
		"its own":       create(namespace, secret(kube.TokenSecret), metav1.CreateOptions{}),
		"a question":    create(namespace, secret("service"), dry),
		"a PodTemplate": template(t, client, namespace),
	} {
		if err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
}

func template(t *testing.T, client kubernetes.Interface, namespace string) error {
	t.Helper()
	_, err := client.CoreV1().PodTemplates(namespace).Create(t.Context(), &corev1.PodTemplate{
		ObjectMeta: metav1.ObjectMeta{Name: "policy"},
		Template:   corev1.PodTemplateSpec{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "i"}}}},
	}, metav1.CreateOptions{})
	return err
}
