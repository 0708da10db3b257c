package session_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/oscarfed/oscarfed/syncer/session"
)

func TestMemoryFile(t *testing.T) {
	name := filepath.Join(t.TempDir(), "cluster-uid")
	f := session.MemoryFile(name)
	if uid, err := f.Load(); uid != "" || err != nil {
		t.Errorf("%q %v", uid, err)
	}
	for _, uid := range []string{"one", "two"} {
		if err := f.Save(uid); err != nil {
			t.Fatal(err)
		}
		if got, err := f.Load(); got != uid || err != nil {
			t.Errorf("%q %v", got, err)
		}
	}
	// Taken for none it would make the next registration ours.
	for what, content := range map[string]string{"empty": "", "of two lines": "one\ntwo\n", "too large": strings.Repeat("x", 1000)} {
		if err := os.WriteFile(name, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		if got, err := f.Load(); err == nil {
			t.Errorf("a file that is %s: %q", what, got)
		}
	}
	if err := session.MemoryFile(filepath.Join(name, "below-a-file")).Save("x"); err == nil {
		t.Error("saved below a file")
	}
	if left, err := filepath.Glob(name + ".*"); err != nil || len(left) != 0 {
		t.Errorf("left %v %v", left, err)
	}
}
