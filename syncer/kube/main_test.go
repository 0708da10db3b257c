package kube_test

import (
	"log/slog"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/client-go/rest"

	"github.com/oscarfed/oscarfed/store/storetest"
	"github.com/oscarfed/oscarfed/syncer/kube"
	"github.com/oscarfed/oscarfed/test/kubetest"
)

// shared is the API server of this package's tests. Names of services are a test's
// own; the namespaces are shared.
var shared = kubetest.Shared{Config: kubetest.Config{Controllers: true}}

func TestMain(m *testing.M) { os.Exit(shared.Main(m)) }

// The account that deploy/rbac speaks of.
const (
	accountNamespace = "oscarfed"
	account          = "oscar-syncer"
)

// install gives the syncer's rights, once.
var install sync.Once

// installed is the API server with OSCAR's namespace and the syncer's rights.
func installed(t *testing.T) *kubetest.Cluster {
	t.Helper()
	cluster := shared.Cluster(t)
	install.Do(func() {
		rights, err := os.ReadFile("../../deploy/rbac/oscar-syncer.yaml")
		if err != nil {
			t.Fatal(err)
		}
		cluster.Namespace(t, kube.ServicesNamespace)
		cluster.Apply(t, "", string(rights))
	})
	// The authorizer hears of roles a moment later.
	for right := range set(everywhere, leading) {
		right.Namespace = kube.ServicesNamespace
		kubetest.Eventually(t, "the syncer may "+right.Verb+" "+right.Resource, func() bool {
			return cluster.Allowed(t, accountNamespace, account, right)
		})
	}
	return cluster
}

// asSyncer is the configuration of a client with the syncer's rights and no others.
func asSyncer(t *testing.T) *rest.Config {
	t.Helper()
	return installed(t).ServiceAccount(t, accountNamespace, account)
}

// open makes a Client with the syncer's rights, through a kubeconfig file.
func open(t *testing.T, change ...func(*kube.Config)) *kube.Client {
	t.Helper()
	// Long enough that a busy machine does not lose a Lease, and short enough that
	// whoever waits looks again soon.
	cfg := kube.Config{Kubeconfig: kubetest.Kubeconfig(t, asSyncer(t), accountNamespace), LeaseTerm: 15 * time.Second, Logger: quiet(t)}
	for _, c := range change {
		c(&cfg)
	}
	client, err := kube.Open(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return client
}

func quiet(t *testing.T) *slog.Logger { return storetest.Logger(t) }

// name is a service name of the test's own.
func name(t *testing.T) string {
	n := strings.ToLower(strings.TrimPrefix(strings.ReplaceAll(t.Name(), "/", "-"), "Test"))
	return n[:min(len(n), 30)]
}
