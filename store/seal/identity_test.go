package seal_test

import (
	"bytes"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/oscarfed/oscarfed/store/seal"
)

func generate(t testing.TB) *seal.Identity {
	t.Helper()
	id, err := seal.Generate()
	if err != nil {
		t.Fatal(err)
	}
	return id
}

func TestLoadOrCreate(t *testing.T) {
	path := filepath.Join(t.TempDir(), "identity")
	made, err := seal.LoadOrCreate(path)
	if err != nil {
		t.Fatal(err)
	}
	loaded, err := seal.LoadOrCreate(path)
	if err != nil || loaded.Recipient() != made.Recipient() {
		t.Errorf("loaded %v after making %v, error %v", loaded, made, err)
	}
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, error %v", info.Mode(), err)
	}
	entries, err := os.ReadDir(filepath.Dir(path))
	if err != nil || len(entries) != 1 {
		t.Errorf("left behind: %v, error %v", entries, err)
	}
	// What age-keygen writes is read too.
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	other := filepath.Join(t.TempDir(), "keygen")
	if err := os.WriteFile(other, append([]byte("# created: 2026-11-20T12:00:00Z\n# public key: age1\n\n"), text...), 0o600); err != nil {
		t.Fatal(err)
	}
	if id, err := seal.LoadOrCreate(other); err != nil || id.Recipient() != made.Recipient() {
		t.Errorf("loaded %v, error %v", id, err)
	}
}

// Processes that start at the same time agree on one identity.
func TestLoadOrCreateAtTheSameTime(t *testing.T) {
	path := filepath.Join(t.TempDir(), "identity")
	var mu sync.Mutex
	seen := make(map[string]bool)
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			id, err := seal.LoadOrCreate(path)
			if err != nil {
				t.Error(err)
				return
			}
			mu.Lock()
			defer mu.Unlock()
			seen[id.Recipient()] = true
		})
	}
	wg.Wait()
	if len(seen) != 1 {
		t.Errorf("identities: %v", seen)
	}
}

func TestLoadOrCreateRefuses(t *testing.T) {
	good := filepath.Join(t.TempDir(), "good")
	if _, err := seal.LoadOrCreate(good); err != nil {
		t.Fatal(err)
	}
	key, err := os.ReadFile(good)
	if err != nil {
		t.Fatal(err)
	}
	secret := key[bytes.Index(key, []byte("AGE-SECRET-KEY")):]
	for name, c := range map[string]struct {
		text []byte
		mode os.FileMode
	}{
		"readable by the group": {key, 0o640},
		"readable by all":       {key, 0o604},
		"empty":                 {nil, 0o600},
		"only comments":         {[]byte("# nothing\n"), 0o600},
		"junk":                  {[]byte("junk\n"), 0o600},
		"a damaged key":         {append([]byte("x"), secret...), 0o600},
		"a public key":          {[]byte(generate(t).Recipient()), 0o600},
		"too large":             {bytes.Repeat([]byte("#\n"), 4000), 0o600},
	} {
		path := filepath.Join(t.TempDir(), "identity")
		if err := os.WriteFile(path, c.text, c.mode); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(path, c.mode); err != nil {
			t.Fatal(err)
		}
		_, err := seal.LoadOrCreate(path)
		if err == nil {
			t.Errorf("%s: accepted", name)
		} else if strings.Contains(err.Error(), "SECRET") {
			t.Errorf("%s: the error shows the key: %v", name, err)
		}
		if after, err := os.ReadFile(path); err != nil || !bytes.Equal(after, c.text) {
			t.Errorf("%s: the file was changed", name)
		}
	}
	if _, err := seal.LoadOrCreate(t.TempDir()); err == nil {
		t.Error("a directory was accepted")
	}
	if _, err := seal.LoadOrCreate(filepath.Join(t.TempDir(), "absent", "identity")); err == nil {
		t.Error("a file in an absent directory was made")
	}
}

func TestDerive(t *testing.T) {
	id := generate(t)
	a, again, b := id.Derive("a"), id.Derive("a"), id.Derive("b")
	if len(a) != 32 || !bytes.Equal(a, again) || bytes.Equal(a, b) || bytes.Equal(a, generate(t).Derive("a")) {
		t.Errorf("derived %x, %x and %x", a, again, b)
	}
}

func TestNoPrintShowsThePrivateKey(t *testing.T) {
	id := generate(t)
	var log bytes.Buffer
	for _, h := range []slog.Handler{slog.NewJSONHandler(&log, nil), slog.NewTextHandler(&log, nil)} {
		slog.New(h).Info("identity", "pointer", id, "value", *id, "in", struct{ ID *seal.Identity }{id})
	}
	shown := log.String()
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%d"} {
		shown += fmt.Sprintf(verb+verb+verb, id, *id, struct{ ID *seal.Identity }{id})
	}
	if strings.Contains(shown, "SECRET") {
		t.Error(shown)
	}
	if !strings.Contains(shown, id.Recipient()) {
		t.Errorf("the recipient is not shown: %s", shown)
	}
}
