package kube_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/oscarfed/oscarfed/api/client"
	"github.com/oscarfed/oscarfed/internal/oscarsim"
	"github.com/oscarfed/oscarfed/syncer"
	"github.com/oscarfed/oscarfed/test/kubetest"
	"github.com/oscarfed/oscarfed/test/world"
)

// TestAServiceThatFitsOnNoNodeIsRefusedWithoutAMetricsAPI: its OSCAR answers 500 to
// what its nodes have, and Kubernetes lists them.
func TestAServiceThatFitsOnNoNodeIsRefusedWithoutAMetricsAPI(t *testing.T) {
	t.Parallel()
	const name = "oscar-svc-fits"
	open := below(t, name)
	nodes := shared.Cluster(t).Client().CoreV1().Nodes()
	node, err := nodes.Create(t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "of-two-cores"}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	gives := corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("2"), corev1.ResourceMemory: resource.MustParse("4Gi")}
	node.Status.Allocatable, node.Status.Capacity = gives, gives
	if _, err := nodes.UpdateStatus(t.Context(), node, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	w := world.New(t, world.Options{
		Clusters: []string{cluster}, Names: []string{name}, Sim: func(c *oscarsim.Config) { c.NoMetrics = true },
		Syncer: func(c *syncer.Config) { c.Kube, c.Resync = open(c.Logger), time.Hour },
	})
	submit := func(cpu string) error {
		s := world.Service(t, fmt.Sprintf(`{"name":%q,"cluster_id":%q,"image":"ghcr.io/grycap/imagemagick","script":"true","cpu":%q}`, name, cluster, cpu))
		_, err := w.Client.CreateService(t.Context(), s, client.CreateOptions{Wait: kubetest.Patience})
		return err
	}
	if err := submit("10000"); err == nil || !strings.Contains(fmt.Sprint(err), "no node of the cluster can give cpu 10000") {
		t.Errorf("with 10000 cores: %v", err)
	}
	if err := submit("2"); err != nil {
		t.Errorf("with 2 cores: %v", err)
	}
}
