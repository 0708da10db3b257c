package kube_test

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/util/validation"
	"pgregory.net/rapid"

	"github.com/oscarfed/oscarfed/syncer/kube"
)

// TestNamespaceIsWhereOSCARPutsThem: what OSCAR v4.1.2's own code answered.
func TestNamespaceIsWhereOSCARPutsThem(t *testing.T) {
	t.Parallel()
	for owner, want := range map[string]string{
		"":                       "oscar-svc",
		"cluster_admin":          "oscar-svc",
		"62bb11b4abcdef@egi.eu":  "oscar-svc-62bb11b4",
		"ab":                     "oscar-svc-ab-da236",
		"a":                      "oscar-svc-a-86f7e4",
		"A B/C":                  "oscar-svc-a-b-c-c0",
		"@@@":                    "oscar-svc-ffab3be0",
		"abcdefg-hi":             "oscar-svc-abcdefg",
		"abcdefg":                "oscar-svc-abcdefg",
		"----x":                  "oscar-svc-x-29e2c6",
		strings.Repeat("x", 200): "oscar-svc-xxxxxxxx",
		"\u00dcn\u00efcode":      "oscar-svc-n-code-e",
		"1234567-9":              "oscar-svc-1234567",
	} {
		if got := kube.Namespace(kube.ServicesNamespace, owner); got != want {
			t.Errorf("owner %q: %s, want %s", owner, got, want)
		}
	}
}

func TestNamespaceIsAlwaysOne(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		owner := rapid.String().Draw(t, "owner")
		got := kube.Namespace(kube.ServicesNamespace, owner)
		if bad := validation.IsDNS1123Label(got); len(bad) > 0 {
			t.Errorf("owner %q: %q: %s", owner, got, bad)
		}
	})
}
