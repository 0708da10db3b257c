package settings

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/oscarfed/oscarfed/internal/atomicfile"
)

// Each edit stands for a process: they share the file, and nothing else.
func TestEditsAtOnceAreAllKept(t *testing.T) {
	path := filepath.Join(t.TempDir(), "new", "config.yaml")
	var wg sync.WaitGroup
	for n := range 20 {
		wg.Go(func() {
			flags := Flags{Config: path, Endpoint: fmt.Sprintf("http://api-%d.test", n)}
			if _, err := flags.SetContext(t.Context(), fmt.Sprintf("c%02d", n)); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	list, err := Flags{Config: path}.Contexts()
	if err != nil || len(list) != 20 {
		t.Errorf("%d contexts, %v", len(list), err)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info, err)
	}
}

// An edit that waits for another process can be interrupted, and changes nothing.
func TestAnEditThatWaitsCanBeInterrupted(t *testing.T) {
	path := filepath.Join(t.TempDir(), "config.yaml")
	unlock, err := atomicfile.Lock(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	defer unlock()
	why := errors.New("interrupted")
	ctx, interrupt := context.WithCancelCause(t.Context())
	interrupt(why)
	if _, err := (Flags{Config: path, Endpoint: "http://api.test"}).SetContext(ctx, "c"); !errors.Is(err, why) {
		t.Errorf("got %v", err)
	}
	if _, err := os.Stat(path); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("there is a file: %v", err)
	}
}

// A configuration that is kept elsewhere, with a link in its place, stays there.
func TestAnEditFollowsALink(t *testing.T) {
	dir := t.TempDir()
	kept, link := filepath.Join(dir, "kept.yaml"), filepath.Join(dir, "config.yaml")
	if err := os.WriteFile(kept, []byte("output: json\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("kept.yaml", link); err != nil {
		t.Fatal(err)
	}
	if _, err := (Flags{Config: link, Endpoint: "http://api.test"}).SetContext(t.Context(), "c"); err != nil {
		t.Fatal(err)
	}
	if to, err := os.Readlink(link); err != nil || to != "kept.yaml" {
		t.Errorf("the link: %q, %v", to, err)
	}
	if list, err := (Flags{Config: kept}).Contexts(); err != nil || len(list) != 1 {
		t.Errorf("%d contexts, %v", len(list), err)
	}
}
