package kube_test

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/oscarfed/oscarfed/internal/boot"
	"github.com/oscarfed/oscarfed/store"
	"github.com/oscarfed/oscarfed/store/record"
	"github.com/oscarfed/oscarfed/syncer/kube"
	"github.com/oscarfed/oscarfed/test/kubetest"
	"github.com/oscarfed/oscarfed/test/world"
)

// TestTheDaemonLeadsByItsKubeconfig: it says which Kubernetes it is in, and gives the Lease
// back when it is stopped.
func TestTheDaemonLeadsByItsKubeconfig(t *testing.T) {
	t.Parallel()
	const services, id = "daemon", "oscar-cluster-daemon"
	account := install(t, services)
	w := world.New(t, world.Options{Clusters: []string{"oscar-cluster-elsewhere"}, Names: []string{services}})
	c := w.Machine(id)
	w.Register(c)
	dir := t.TempDir()
	password := filepath.Join(dir, "password")
	if err := os.WriteFile(password, []byte(world.Password), 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var log world.Log
	ended := make(chan int, 1)
	go func() {
		ended <- boot.SyncerMain(ctx, []string{
			"--cluster-id=" + id, "--etcd-endpoints=" + w.Etcd, "--oscar-endpoint=" + c.URL, "--oscar-user=" + world.User, "--oscar-password-file=" + password,
			"--identity-file=" + filepath.Join(dir, "identity.age"), "--data-dir=" + filepath.Join(dir, "data"), "--metrics-listen=",
			"--kubeconfig=" + kubetest.Kubeconfig(t, account, services), "--services-namespace=" + services,
		}, nil, &log, &log)
	}()
	defer func() {
		if t.Failed() {
			t.Log(log.String())
		}
	}()
	if err := w.CP.Clusters.Await(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	system, err := shared.Cluster(t).Client().CoreV1().Namespaces().Get(t.Context(), metav1.NamespaceSystem, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	w.Eventually("it says where it is", func() bool {
		v, err := w.Store.Read(t.Context(), record.ObservedClusterKey(id))
		if err != nil {
			t.Fatal(err)
		}
		kv, ok := v.KV(record.ObservedClusterKey(id))
		if !ok {
			return false
		}
		said, err := store.Decode[record.ObservedCluster](kv)
		if err != nil {
			t.Fatal(err)
		}
		return said.KubeSystemUID == string(system.UID)
	})
	holder := func() string {
		t.Helper()
		lease, err := shared.Cluster(t).Client().CoordinationV1().Leases(services).Get(t.Context(), kube.LeaseName, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return *lease.Spec.HolderIdentity
	}
	if holder() == "" {
		t.Error("it works without the Lease")
	}
	stop()
	if status := <-ended; status != 0 {
		t.Errorf("it ended with status %d", status)
	}
	if h := holder(); h != "" {
		t.Errorf("%s still holds the Lease", h)
	}
}
