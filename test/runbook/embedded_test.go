//go:build linux

package runbook_test

import (
	"strings"
	"testing"

	"github.com/oscarfed/oscarfed/test/await"
)

// TestTheProceduresOfAnEmbeddedEtcd: a control plane is started and two clusters join; etcd is read, and what a deletion
// waits for; a backup is made and the machine loses its disk; the backup is restored, and what differs is resolved.
func TestTheProceduresOfAnEmbeddedEtcd(t *testing.T) {
	s := newSite(t, federation, "oscar-a", "oscar-d", "elsewhere")
	h, elsewhere := s.hosts[federation], s.hosts["elsewhere"]
	h.install(s.block(quickstart, byHand, 0))
	h.start()
	s.join("a", h.run(s.block(quickstart, byHand, 1)))
	s.join("d", h.run(s.block(operations, join, 0)))
	h.apply("changed", "128Mi", "a", "d")
	h.apply("gone", "128Mi", "a", "d")
	s.debug()

	elsewhere.run(s.block(operations, backup, 0))
	h.write(work+"/recovery.pub", elsewhere.read(work+"/recovery.pub"), "root")
	h.run("mkdir /backup\n")
	h.run(s.block(operations, backup, 1))
	h.apply("changed", "256Mi", "a", "d")
	h.run("oscarfed delete gone0 --yes\n")

	h.run("systemctl stop oscar-controlplane\nrm -r /var/lib/oscarfed\n")
	h.write(work+"/recovery.age", elsewhere.read(work+"/recovery.age"), "root")
	h.run(s.block(operations, restore, 0))
	h.joined("a")
	h.joined("d")
	h.differences("oscar-cluster-a/changed0 ahead", "oscar-cluster-d/changed1 ahead", "oscar-cluster-a/gone0 missing", "oscar-cluster-d/gone1 missing")
	h.run(s.block(operations, afterRestore, 0))
	h.run("oscarfed resolve oscar-cluster-d/changed1 --keep store\n")
	h.differences()
	await.Until(t, "the definition of the backup stands", func() bool {
		return s.has("a", "changed0", "128Mi") && s.has("d", "changed1", "128Mi")
	})
	if out := h.run("oscarfed get federations\n"); !strings.Contains(out, "changed0") || strings.Contains(out, "gone0") {
		t.Errorf("the federations are\n%s", out)
	}
}

// has says whether a service stands at an OSCAR with this memory.
func (s *site) has(letter, service, memory string) bool {
	v, ok := s.oscars[letter].Service(service)
	return ok && strings.Contains(string(v.JSON), `"memory":"`+memory+`"`)
}
