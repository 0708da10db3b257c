package e2e_test

import (
	"strings"
	"testing"

	"github.com/oscarfed/oscarfed/internal/oscarsim"
	"github.com/oscarfed/oscarfed/test/await"
	"github.com/oscarfed/oscarfed/test/world"
)

// TestAUserLearnsNothingOfHowClustersAreBuilt: neither where they are reached, nor what
// their nodes are called, nor what is found on them; the administrator does.
func TestAUserLearnsNothingOfHowClustersAreBuilt(t *testing.T) {
	await.InVirtualTime(t, func(t *testing.T) {
		w := withUsers(t, func(o *world.Options) {
			o.Sim = func(cfg *oscarsim.Config) {
				cfg.Nodes = []oscarsim.Node{{Name: "ip-10-0-0-7.internal", CPU: 4000, Memory: 8 << 30}}
			}
		})
		internal := []string{"ip-10-0-0-7.internal", "quota_bytes"}
		for _, id := range []string{a, b, c} {
			internal = append(internal, w.Cluster(id).UID, strings.TrimPrefix(w.Cluster(id).URL, "http://"))
		}
		w.Eventually("the nodes are known", func() bool {
			_, _, status := w.Do("GET", "/system/status", "")
			return strings.Count(status, internal[0]) == 3
		})
		paths := []string{
			"/system/clusters", "/system/clusters/" + a, "/system/status", "/system/info", "/system/config", "/system/services", "/system/federations",
			"/system/deleted", "/system/differences", "/system/audit",
		}
		all := ""
		for _, path := range paths {
			_, _, shown := w.Do("GET", path, "")
			all += shown
			_, _, shown = w.Raw("GET", path, "", "Bearer "+w.Token(alice, nil))
			for _, word := range internal {
				if strings.Contains(shown, word) {
					t.Errorf("%s tells a user %s: %s", path, word, shown)
				}
			}
		}
		for _, word := range internal {
			if !strings.Contains(all, word) {
				t.Errorf("the administrator is not told %s", word)
			}
		}
		_, _, shown := w.Raw("GET", "/system/clusters/"+a, "", "Bearer "+w.Token(alice, nil))
		if want := `{"v":1,"cluster_id":"` + a + `","labels":{},"state":"active","alive":true,"oscar_version":"v4.1.2"}`; shown != want {
			t.Errorf("a user is shown %s\nwant %s", shown, want)
		}
		if _, _, status := w.Raw("GET", "/system/status", "", "Bearer "+w.Token(alice, nil)); !strings.Contains(status, `"`+a+`/node-1"`) {
			t.Errorf("a user is shown no node: %s", status)
		}
	})
}
