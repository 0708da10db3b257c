package controlplane_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	v1 "github.com/oscarfed/oscarfed/api/v1"
	"github.com/oscarfed/oscarfed/controlplane"
	"github.com/oscarfed/oscarfed/controlplane/federations"
	"github.com/oscarfed/oscarfed/controlplane/request"
	"github.com/oscarfed/oscarfed/internal/auditlog"
	"github.com/oscarfed/oscarfed/test/await"
)

// Each entry is exported once, also what was entered while the exporter was away, and
// before the store forgets it.
func TestTheAuditIsExportedWhole(t *testing.T) {
	await.InVirtualTime(t, func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "audit.jsonl")
		export := func(c *controlplane.Config) {
			log, err := auditlog.Open(path, nil)
			if err != nil {
				t.Fatal(err)
			}
			c.AuditLog = log
		}
		exported := func() (string, auditlog.Verified) {
			data, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			var v auditlog.Verifier
			if err := v.Read(strings.NewReader(string(data))); err != nil {
				t.Error(err)
			}
			return string(data), v.Verified
		}
		w := newWorld(t)
		_, stop := startStoppable(t, w.store, w.identity, export)
		w.mustCreate()
		entries := func() int {
			_, list := w.audited(request.AuditQuery{Limit: v1.MaxPage})
			return len(list)
		}
		w.eventually(func() bool { _, v := exported(); return v.Lines == entries() })
		stop()
		if _, err := w.Federations.DeleteService(t.Context(), admin, "grayifyr0", federations.DeleteOptions{Wait: time.Minute}); err != nil {
			t.Fatal(err)
		}
		startControlPlane(t, w.store, w.identity, export)
		w.eventually(func() bool { _, v := exported(); return v.Lines == entries() })
		text, _ := exported()
		for _, word := range []string{`"action":"create"`, `"action":"delete"`, `"outcome":"done"`} {
			if !strings.Contains(text, word) {
				t.Errorf("%s is not in %s", word, text)
			}
		}
	})
}
