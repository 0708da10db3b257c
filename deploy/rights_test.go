package deploy_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	rbacv1 "k8s.io/api/rbac/v1"
)

// The chart and the manifest for those without helm give the syncer the same: the
// tests of syncer/kube, which try the manifest's rights one by one, hold for both.
func TestTheChartGivesTheRightsOfTheManifest(t *testing.T) {
	chart := render(t, tool(t, "helm"), "testdata/values/oscar-syncer-least.yaml", "oscar-syncer", "oscarfed")
	plain := decode(t, "rbac/oscar-syncer.yaml")
	for name, of := range map[string]func(manifest) any{
		"ClusterRole":        func(m manifest) any { return only[*rbacv1.ClusterRole](t, m).Rules },
		"Role":               func(m manifest) any { return only[*rbacv1.Role](t, m).Rules },
		"namespace of Role":  func(m manifest) any { return only[*rbacv1.Role](t, m).Namespace },
		"ClusterRoleBinding": func(m manifest) any { return only[*rbacv1.ClusterRoleBinding](t, m).Subjects },
		"RoleBinding":        func(m manifest) any { return only[*rbacv1.RoleBinding](t, m).Subjects },
		"namespace of RoleBinding": func(m manifest) any {
			return only[*rbacv1.RoleBinding](t, m).Namespace
		},
		"ValidatingAdmissionPolicy": func(m manifest) any { return only[*admissionv1.ValidatingAdmissionPolicy](t, m).Spec },
		"its binding": func(m manifest) any {
			return only[*admissionv1.ValidatingAdmissionPolicyBinding](t, m).Spec.ValidationActions
		},
	} {
		if diff := cmp.Diff(of(plain), of(chart)); diff != "" {
			t.Errorf("%s (-manifest +chart):\n%s", name, diff)
		}
	}
	for _, m := range []manifest{chart, plain} {
		if b := only[*rbacv1.ClusterRoleBinding](t, m); b.RoleRef.Name != only[*rbacv1.ClusterRole](t, m).Name {
			t.Errorf("%s: binds %s", m.values, b.RoleRef.Name)
		}
		if b := only[*rbacv1.RoleBinding](t, m); b.RoleRef.Name != only[*rbacv1.Role](t, m).Name {
			t.Errorf("%s: binds %s", m.values, b.RoleRef.Name)
		}
		if b := only[*admissionv1.ValidatingAdmissionPolicyBinding](t, m); b.Spec.PolicyName != only[*admissionv1.ValidatingAdmissionPolicy](t, m).Name {
			t.Errorf("%s: binds %s", m.values, b.Spec.PolicyName)
		}
	}
}
