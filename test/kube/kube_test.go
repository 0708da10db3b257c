// Package kube_test runs syncers over a real Kubernetes API server, with the rights of
// deploy/rbac and no others. The OSCARs are simulated: what an OSCAR writes into
// Kubernetes, and reads there, the tests carry over.
package kube_test

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"

	"github.com/oscarfed/oscarfed/api/client"
	"github.com/oscarfed/oscarfed/internal/oscarsim"
	"github.com/oscarfed/oscarfed/store/record"
	"github.com/oscarfed/oscarfed/syncer"
	"github.com/oscarfed/oscarfed/syncer/kube"
	"github.com/oscarfed/oscarfed/test/kubetest"
	"github.com/oscarfed/oscarfed/test/world"
)

// shared is the API server of this package's tests. Each has an OSCAR of its own in it,
// by another namespace of services; the service and the bucket have the same name.
var shared = kubetest.Shared{Config: kubetest.Config{Controllers: true}}

func TestMain(m *testing.M) { os.Exit(shared.Main(m)) }

const cluster = "oscar-cluster-a"

// below makes the namespace of services of an OSCAR, and clients with the rights of a
// syncer that was installed for it.
func below(t *testing.T, services string) func(log *slog.Logger) *kube.Client {
	t.Helper()
	account := install(t, services)
	return func(log *slog.Logger) *kube.Client {
		t.Helper()
		c, err := kube.New(account, kube.Config{Services: services, LeaseTerm: time.Minute, Logger: log})
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
}

// install makes the namespace of services of an OSCAR, and a syncer's account for it.
func install(t *testing.T, services string) *rest.Config {
	t.Helper()
	api := shared.Cluster(t)
	api.Namespace(t, services)
	raw, err := os.ReadFile("../../deploy/rbac/oscar-syncer.yaml")
	if err != nil {
		t.Fatal(err)
	}
	// As its comment says: other names, everywhere.
	rights := strings.ReplaceAll(string(raw), "oscar-svc", services)
	installed := services + "-syncer"
	rights = strings.ReplaceAll(rights, "namespace: oscarfed", "namespace: "+installed)
	rights = strings.ReplaceAll(rights, "name: oscarfed\n", "name: "+installed+"\n")
	rights = strings.ReplaceAll(rights, "serviceaccount:oscarfed:", "serviceaccount:"+installed+":")
	for _, kind := range []string{"ClusterRole", "ClusterRoleBinding", "ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding"} {
		rights = strings.ReplaceAll(rights, "kind: "+kind+"\nmetadata:\n  name: oscar-syncer", "kind: "+kind+"\nmetadata:\n  name: "+installed)
	}
	rights = strings.ReplaceAll(rights, "kind: ClusterRole\n  name: oscar-syncer", "kind: ClusterRole\n  name: "+installed)
	rights = strings.ReplaceAll(rights, "policyName: oscar-syncer", "policyName: "+installed)
	api.Apply(t, "", rights)
	conf := api.ServiceAccount(t, installed, "oscar-syncer")
	// The authorizer knows a role a moment later.
	kubetest.Eventually(t, "the rights count", func() bool {
		return api.Allowed(t, installed, "oscar-syncer", authorizationv1.ResourceAttributes{Verb: "create", Resource: "podtemplates", Namespace: services})
	})
	return conf
}

// newWorld is a federation of one cluster over a Kubernetes. Its syncer compares
// everything once, at its start.
func newWorld(t *testing.T, services string) *world.World {
	t.Helper()
	open := below(t, services)
	return world.New(t, world.Options{Clusters: []string{cluster}, Names: []string{services}, Syncer: func(c *syncer.Config) {
		c.Kube, c.Resync = open(c.Logger), time.Hour
		c.SessionTTL = time.Minute // as the Lease: a busy machine ends neither, and no other syncer takes over
	}})
}

// create makes the service, in the OSCAR and, as an OSCAR does, in Kubernetes.
func create(w *world.World, services string) *corev1.ConfigMap {
	w.T.Helper()
	s := world.Service(w.T, fmt.Sprintf(`{"name":%q,"cluster_id":%q,"image":"ghcr.io/grycap/imagemagick","script":"true",
		"input":[{"storage_provider":"minio.default","path":"%s/in"}]}`, services, cluster, services))
	if _, err := w.Client.CreateService(w.T.Context(), s, client.CreateOptions{Wait: kubetest.Patience}); err != nil {
		w.T.Fatal(err)
	}
	definition, err := shared.Cluster(w.T).Client().CoreV1().ConfigMaps(services).Create(w.T.Context(), &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: services, Labels: map[string]string{"oscar_service": services}},
	}, metav1.CreateOptions{})
	if err != nil {
		w.T.Fatal(err)
	}
	return definition
}

func TestDriftIsSeenWithoutWaitingForAResync(t *testing.T) {
	t.Parallel()
	const services = "drifting"
	w := newWorld(t, services)
	definition := create(w, services)
	// Somebody's own PUT, which makes OSCAR write the definition anew.
	c := w.Cluster(cluster)
	status, _ := w.Directly(http.MethodPut, c.URL+"/system/services", []byte(`{"name":"drifting","image":"example.org/vandal","script":"s",
"owner":"cluster_admin","input":[{"storage_provider":"minio.default","path":"drifting/in"}]}`))
	if v, _ := c.Sim.Service(services); v.Image != "example.org/vandal" {
		t.Fatalf("the PUT answered %d and did nothing", status)
	}
	definition.Data = map[string]string{"function_config.yaml": "image: example.org/vandal"}
	if _, err := shared.Cluster(t).Client().CoreV1().ConfigMaps(services).Update(t.Context(), definition, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	changed := time.Now()
	w.Eventually("the image is as desired again", func() bool {
		v, _ := c.Sim.Service(services)
		return v.Image == "ghcr.io/grycap/imagemagick"
	})
	t.Logf("repaired %s after the change", time.Since(changed))
}

// TestAHalfCreatedServiceIsHealedThroughKubernetes: its PodTemplate is gone, so that OSCAR
// cannot delete it, and its owner orders just that.
func TestAHalfCreatedServiceIsHealedThroughKubernetes(t *testing.T) {
	t.Parallel()
	const services = "healing"
	w := newWorld(t, services)
	create(w, services)
	sim := w.Cluster(cluster).Sim
	sim.PutBucket(services, "in/precious")
	sim.HalfCreate(services)
	carryTemplates(t, services, sim)
	if _, err := w.Client.DeleteService(t.Context(), services, client.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	w.Eventually("it is deleted", func() bool {
		_, there := sim.Service(services)
		return !there && len(w.Keys(record.DesiredServicesPrefix(cluster))) == 0
	})
	if b, ok := sim.Bucket(services); !ok || len(b.Objects) == 0 {
		t.Errorf("its bucket went with it: %v", b)
	}
}

// carryTemplates makes an OSCAR read the PodTemplates of a namespace.
func carryTemplates(t *testing.T, services string, sim *oscarsim.Sim) {
	t.Helper()
	templates, err := shared.Cluster(t).Client().CoreV1().PodTemplates(services).Watch(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	world.Background(t, func(ctx context.Context) error {
		defer templates.Stop()
		for {
			select {
			case <-ctx.Done():
				return nil
			case event, ok := <-templates.ResultChan():
				if !ok && t.Context().Err() != nil {
					return nil // the test is over
				}
				if !ok {
					return fmt.Errorf("the watch of PodTemplates of %s ended", services)
				}
				if template, ok := event.Object.(*corev1.PodTemplate); ok && event.Type == watch.Added {
					if err := sim.PutPodTemplate(template.Name); err != nil {
						return err
					}
				}
			}
		}
	})
}

// TestTheSyncerOfAnotherControlPlaneWaits: two federations were given one OSCAR by
// mistake. Their sessions know nothing of each other; the Lease does.
func TestTheSyncerOfAnotherControlPlaneWaits(t *testing.T) {
	t.Parallel()
	const services, theirs = "contended", "oscar-cluster-theirs"
	w := newWorld(t, services)
	open := below(t, services)
	others := world.New(t, world.Options{Clusters: []string{"oscar-cluster-elsewhere"}, Names: []string{services}})
	c := others.Machine(theirs)
	others.Register(c)
	c.URL = w.Cluster(cluster).URL
	c.Start(func(cfg *syncer.Config) { cfg.Kube = open(cfg.Logger) })
	others.Eventually("their syncer waits", func() bool { return strings.Contains(others.Log.String(), "another syncer of this OSCAR leads") })
	create(w, services) // ours writes
	if keys := others.Keys(record.SessionKey(theirs)); len(keys) > 0 {
		t.Error("their syncer holds a session, and cannot write")
	}
	w.Cluster(cluster).Stop()
	if err := others.CP.Clusters.Await(t.Context(), theirs); err != nil {
		t.Errorf("their syncer does not go on: %v", err)
	}
}
