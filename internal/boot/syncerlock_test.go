package boot

import (
	"bytes"
	"log/slog"
	"path/filepath"
	"strings"
	"testing"
)

// A syncer that starts in the folder of another one that runs says so, and what to do; one that starts after it says
// nothing.
func TestASyncerSaysThatItsFolderIsInUse(t *testing.T) {
	var said bytes.Buffer
	log := slog.New(slog.NewTextHandler(&said, nil))
	folder := t.TempDir()
	first := takeLock(folder, log)
	if first == nil || said.Len() > 0 {
		t.Fatalf("the first: %s", &said)
	}
	if second := takeLock(folder, log); second != nil {
		t.Error("two hold one lock")
	}
	if text := said.String(); !strings.Contains(text, "another syncer runs with the same folder") || !strings.Contains(text, folder) {
		t.Errorf("the second: %s", text)
	}
	said.Reset()
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	third := takeLock(folder, log)
	if third == nil || said.Len() > 0 {
		t.Fatalf("the third: %s", &said)
	}
	_ = third.Close()
	if none := takeLock(filepath.Join(folder, "missing"), log); none != nil || strings.Contains(said.String(), "another syncer") || said.Len() == 0 {
		t.Errorf("a folder that is missing: %s", &said)
	}
}
