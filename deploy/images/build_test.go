package images

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// A ko that notes what it was told to build on.
const fakeKo = `#!/bin/sh
set -e
while [ $# -gt 0 ]; do [ "$1" = --tarball ] && out=$2; shift; done
echo "$KO_DEFAULTBASEIMAGE" >"$out"
`

func TestImagesAreBuiltOnTheSameNameEachTime(t *testing.T) {
	dir := t.TempDir()
	cfg := Config{Ko: filepath.Join(dir, "ko"), CAFile: filepath.Join(dir, "ca.crt"), Repository: "oscarfed"}
	if err := errors.Join(os.WriteFile(cfg.Ko, []byte(fakeKo), 0o700), os.WriteFile(cfg.CAFile, []byte(someCA), 0o600)); err != nil {
		t.Fatal(err)
	}
	var first []byte
	for _, out := range []string{"one", "two"} {
		cfg.Out = filepath.Join(dir, out)
		if err := Build(t.Context(), cfg, io.Discard, io.Discard); err != nil {
			t.Fatal(err)
		}
		base, err := os.ReadFile(filepath.Join(cfg.Out, "oscarfed-devel-linux-amd64.tar"))
		if err != nil {
			t.Fatal(err)
		}
		if first == nil {
			first = base
		}
		if !bytes.Equal(base, first) {
			t.Errorf("built on %s, and before on %s: ko writes that name into the images, and their digests differ", base, first)
		}
	}
	cfg.Out, cfg.Arch = filepath.Join(dir, "arm"), "arm64"
	if err := Build(t.Context(), cfg, io.Discard, io.Discard); err != nil {
		t.Fatal(err)
	}
	if made, err := filepath.Glob(filepath.Join(cfg.Out, "*.tar")); err != nil || len(made) != 1 || filepath.Base(made[0]) != "oscarfed-devel-linux-arm64.tar" {
		t.Errorf("for one architecture there are %v, %v", made, err)
	}
}

func TestOneBuildAtATimeWritesToAFolder(t *testing.T) {
	dir := t.TempDir()
	unlock, err := lock(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	if _, err := lock(ctx, dir); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("a second build got the folder: %v", err)
	}
	unlock()
	unlock, err = lock(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	unlock()
}
