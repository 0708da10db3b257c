package kube

import (
	"context"
	"maps"
	"slices"
	"strings"

	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Rights are what the calls of this package need in every namespace, and in that of OSCAR's
// services.
func Rights() (everywhere, leading []authorizationv1.ResourceAttributes) {
	for _, r := range []struct{ group, resource, name, verbs string }{
		{"", "namespaces", metav1.NamespaceSystem, "get"},
		{"", "configmaps", "", "list watch"},
		{"", "podtemplates", "", "create"},
		{"", "nodes", "", "list watch"},
		{"", "events", "", "list"},
		{"", "secrets", "", "create"},
		{"", "secrets", TokenSecret, "get update delete"},
		{"batch", "jobs", "", "get list watch patch delete"},
		{"", "pods", "", "list watch patch"},
		{"kueue.x-k8s.io", "workloads", "", "list patch"},
	} {
		for verb := range strings.FieldsSeq(r.verbs) {
			everywhere = append(everywhere, authorizationv1.ResourceAttributes{Verb: verb, Group: r.group, Resource: r.resource, Name: r.name})
		}
	}
	const leases = "coordination.k8s.io"
	return everywhere, []authorizationv1.ResourceAttributes{
		{Verb: "create", Group: leases, Resource: "leases"},
		{Verb: "get", Group: leases, Resource: "leases", Name: LeaseName},
		{Verb: "update", Group: leases, Resource: "leases", Name: LeaseName},
	}
}

// Denied implements Interface: it asks the API server about each right.
func (c *Client) Denied(ctx context.Context) ([]string, error) {
	everywhere, leading := Rights()
	for i := range leading {
		leading[i].Namespace = c.cfg.Services
	}
	verbs := map[string][]string{}
	for _, right := range append(everywhere, leading...) {
		may, err := c.may(ctx, right)
		if err != nil {
			return nil, err
		}
		if what := resourceOf(right); !may {
			verbs[what] = append(verbs[what], right.Verb)
		}
	}
	var out []string
	for _, what := range slices.Sorted(maps.Keys(verbs)) {
		slices.Sort(verbs[what])
		out = append(out, what+": "+strings.Join(verbs[what], ", "))
	}
	slices.Sort(out)
	return out, nil
}

func (c *Client) may(ctx context.Context, right authorizationv1.ResourceAttributes) (bool, error) {
	ctx, cancel := c.call(ctx)
	defer cancel()
	review, err := c.kube.AuthorizationV1().SelfSubjectAccessReviews().Create(ctx, &authorizationv1.SelfSubjectAccessReview{
		Spec: authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: &right},
	}, metav1.CreateOptions{})
	if err != nil {
		return false, failed("own rights", err)
	}
	return review.Status.Allowed, nil
}

// resourceOf is a resource as kubectl names it, with the name of the object.
func resourceOf(right authorizationv1.ResourceAttributes) string {
	what := right.Resource
	if right.Group != "" {
		what = right.Group + "/" + what
	}
	if right.Name != "" {
		what += "/" + right.Name
	}
	return what
}
