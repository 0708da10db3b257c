package deploy_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/oscarfed/oscarfed/test/kubetest"
)

// What `oscarfed cluster join --helm` prints installs a release, or upgrades one that is there: this one keeps the other values
// that it was given.
func TestARejoinKeepsTheOtherValuesOfARelease(t *testing.T) {
	seeCharts(t)
	cluster := shared.Cluster(t)
	for _, name := range []string{"oscarfed", "oscar-svc", "services"} {
		cluster.Namespace(t, name)
	}
	bin := t.TempDir()
	if err := os.Symlink(tool(t, "helm"), filepath.Join(bin, "helm")); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", bin+string(os.PathListSeparator)+os.Getenv("PATH"))
	t.Setenv("KUBECONFIG", kubetest.Kubeconfig(t, cluster.Admin(), "default"))
	var script string
	read(t, "../internal/cli/testdata/script/cluster_join.txtar", func(data []byte) error { script = string(data); return nil })
	_, printed, _ := strings.Cut(script, "\nhelm upgrade ")
	printed, _, ok := strings.Cut(printed, "\nVALUES\n")
	if !ok {
		t.Fatal("the command's script has no values")
	}
	join := func() {
		t.Helper()
		if out, err := run(t, "sh", "-c", "cd .. && helm upgrade "+printed+"\nVALUES\n"); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
	}
	join()
	if _, err := run(t, "helm", "upgrade", "oscar-syncer", "helm/oscar-syncer", "--namespace=oscarfed", "--reuse-values",
		"--set=oscar.servicesNamespace=services,oscar.ca.configMap=site,image.repository=registry.example.org/syncer,podAnnotations.a=b",
		"--set=controlPlane.url=https://elsewhere.example.org,controlPlane.ca=AAAA,oscar.passwordSecret.name=other,oscar.passwordSecret.key=pw"); err != nil {
		t.Fatal(err)
	}
	join()
	got, err := run(t, "helm", "get", "values", "oscar-syncer", "--namespace=oscarfed", "--output=yaml")
	if err != nil {
		t.Fatal(err)
	}
	const want = `clusterID: known
controlPlane:
  ca: ""
  joinTokenSecret:
    key: token
    name: oscar-syncer-join
  url: https://api.example.org
image:
  repository: registry.example.org/syncer
oscar:
  ca:
    configMap: site
  endpoint: https://known.example.org
  passwordSecret:
    key: password
    name: oscar-password
  servicesNamespace: services
podAnnotations:
  a: b
  oscarfed.io/join-token-expires: "2026-11-20T13:15:00Z"
`
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("values of the release (-want +got):\n%s", diff)
	}
}
