package kubetest

import (
	"errors"
	"io"
	"path/filepath"
	"strings"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/oscarfed/oscarfed/test/await"
)

// Patience is how long a test waits for something to come true before it fails.
const Patience = await.Limit

// Admin is the configuration of an administrator's client.
func (c *Cluster) Admin() *rest.Config { return rest.CopyConfig(c.admin) }

// Client is an administrator's client.
func (c *Cluster) Client() kubernetes.Interface { return c.client }

// Namespace makes a namespace, unless it is there, and returns its name.
func (c *Cluster) Namespace(t testing.TB, name string) string {
	t.Helper()
	_, err := c.client.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		t.Fatal(err)
	}
	return name
}

// ServiceAccount makes a service account, unless it is there, and returns a
// configuration with a token of it. It has the rights that roles were bound to.
func (c *Cluster) ServiceAccount(t testing.TB, namespace, name string) *rest.Config {
	t.Helper()
	accounts := c.client.CoreV1().ServiceAccounts(c.Namespace(t, namespace))
	_, err := accounts.Create(t.Context(), &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		t.Fatal(err)
	}
	answer, err := accounts.CreateToken(t.Context(), name, &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	conf := c.Admin()
	conf.BearerToken = answer.Status.Token
	return conf
}

// Kubeconfig writes a kubeconfig file for a configuration, and returns its path.
func Kubeconfig(t testing.TB, conf *rest.Config, namespace string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "kubeconfig")
	if err := writeKubeconfig(path, conf, namespace); err != nil {
		t.Fatal(err)
	}
	return path
}

func writeKubeconfig(path string, conf *rest.Config, namespace string) error {
	const name = "kubetest"
	return clientcmd.WriteToFile(clientcmdapi.Config{
		Clusters:       map[string]*clientcmdapi.Cluster{name: {Server: "https://" + conf.Host, CertificateAuthorityData: conf.CAData}},
		AuthInfos:      map[string]*clientcmdapi.AuthInfo{name: {Token: conf.BearerToken}},
		Contexts:       map[string]*clientcmdapi.Context{name: {Cluster: name, AuthInfo: name, Namespace: namespace}},
		CurrentContext: name,
	}, path)
}

// Apply applies the objects of a YAML text, several documents, as `kubectl apply
// --server-side` does: unknown and repeated fields are refused. Objects without a
// namespace that need one go to namespace.
func (c *Cluster) Apply(t testing.TB, namespace, text string) {
	t.Helper()
	client, err := dynamic.NewForConfig(c.admin)
	if err != nil {
		t.Fatal(err)
	}
	known, err := restmapper.GetAPIGroupResources(c.client.Discovery())
	if err != nil {
		t.Fatal(err)
	}
	mapper := restmapper.NewDiscoveryRESTMapper(known)
	documents := yaml.NewYAMLToJSONDecoder(strings.NewReader(text))
	for {
		object := &unstructured.Unstructured{}
		err := documents.Decode(object)
		if errors.Is(err, io.EOF) {
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		if len(object.Object) == 0 {
			continue // a document of comments
		}
		kind := object.GroupVersionKind()
		mapping, err := mapper.RESTMapping(kind.GroupKind(), kind.Version)
		if err != nil {
			t.Fatal(err)
		}
		var resource dynamic.ResourceInterface = client.Resource(mapping.Resource)
		if mapping.Scope.Name() == meta.RESTScopeNameNamespace {
			if object.GetNamespace() == "" {
				object.SetNamespace(namespace)
			}
			resource = client.Resource(mapping.Resource).Namespace(object.GetNamespace())
		}
		body, err := object.MarshalJSON()
		if err != nil {
			t.Fatal(err)
		}
		force := true
		_, err = resource.Patch(t.Context(), object.GetName(), "application/apply-patch+yaml", body,
			metav1.PatchOptions{FieldManager: "kubetest", Force: &force, FieldValidation: metav1.FieldValidationStrict})
		if err != nil {
			t.Fatalf("apply %s %s/%s: %v", kind.Kind, object.GetNamespace(), object.GetName(), err)
		}
	}
}

// Allowed asks the API server's authorizer whether a service account may do something.
func (c *Cluster) Allowed(t testing.TB, namespace, account string, what authorizationv1.ResourceAttributes) bool {
	t.Helper()
	review, err := c.client.AuthorizationV1().SubjectAccessReviews().Create(t.Context(), &authorizationv1.SubjectAccessReview{
		Spec: authorizationv1.SubjectAccessReviewSpec{
			User:               "system:serviceaccount:" + namespace + ":" + account,
			Groups:             []string{"system:serviceaccounts", "system:serviceaccounts:" + namespace, "system:authenticated"},
			ResourceAttributes: &what,
		},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return review.Status.Allowed
}

// Eventually waits until ok is true, for Patience.
func Eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	await.Until(t, what, ok)
}
