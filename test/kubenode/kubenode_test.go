//go:build linux

package main

import (
	"bytes"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// What a machine refuses is a failure unless it was said that it may be.
func TestWhatAMachineRefuses(t *testing.T) {
	refused := errors.Join(errRefused, errors.New("no namespaces"))
	for _, c := range []struct {
		mode, said string
		err        error
		want       int
	}{
		{"", "", refused, 1},
		{"auto", "SKIPPED", refused, 0},
		{"auto", "", errors.New("kubelet ended"), 1},
		{"auto", "", &exitError{3}, 3},
		{"auto", "", nil, 0},
	} {
		var out bytes.Buffer
		if got := status(c.err, c.mode, &out, io.Discard); got != c.want || !strings.HasPrefix(out.String(), c.said) {
			t.Errorf("%v with E2E_KUBE=%q: status %d, %q; want %d, %q", c.err, c.mode, got, out.String(), c.want, c.said)
		}
	}
}

// A cgroup's folders go from the bottom up, as its files cannot be removed.
func TestATreeOfFoldersIsRemoved(t *testing.T) {
	root := filepath.Join(t.TempDir(), "node")
	if err := os.MkdirAll(filepath.Join(root, "kubepods", "burstable", "pod1"), 0o700); err != nil {
		t.Fatal(err)
	}
	for range 2 { // there or not
		if err := removeTree(root); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := os.Stat(root); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("it is there: %v", err)
	}
}

// Runs that were killed left their folders and cgroups for ever.
func TestWhatAKilledNodeLeftIsSwept(t *testing.T) {
	root := t.TempDir()
	alive, err := newFolder(root)
	if err != nil {
		t.Fatal(err)
	}
	defer alive.Close() //nolint:errcheck // a folder
	killed, err := newFolder(root)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(os.WriteFile(filepath.Join(killed.Name(), "admin.conf"), nil, 0o600), killed.Close()); err != nil {
		t.Fatal(err)
	}
	if err := sweep(root); err != nil {
		t.Fatal(err)
	}
	left, err := filepath.Glob(filepath.Join(root, "*"))
	if err != nil || len(left) != 1 || left[0] != alive.Name() {
		t.Errorf("left: %v, %v; want %s", left, err, alive.Name())
	}
}

// Each program's configuration has the folder of this node, and no other.
func TestConfigurationsNameTheNodesFolder(t *testing.T) {
	dir := t.TempDir()
	k, err := newKeys(dir)
	if err != nil {
		t.Fatal(err)
	}
	if err := writeConfigs(dir, k); err != nil {
		t.Fatal(err)
	}
	for name, token := range map[string]string{"admin.conf": k.admin.Token, "kubelet.conf": k.kubelet.Token, "kubelet.yaml": "", "containerd.toml": "", "proxy.yaml": ""} {
		data, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		if text := string(data); !strings.Contains(text, dir) || !strings.Contains(text, token) || strings.Contains(text, "DIR") || strings.Contains(text, "TOKEN") {
			t.Errorf("%s:\n%s", name, text)
		}
	}
}

// The archive has what containerd reads: tar knows it, and the layer is the one that the configuration names.
func TestAnImageNamesItsLayer(t *testing.T) {
	dir := t.TempDir()
	program := filepath.Join(dir, "pause")
	if err := os.WriteFile(program, []byte("a program"), 0o600); err != nil {
		t.Fatal(err)
	}
	image := filepath.Join(dir, "pause.tar")
	if err := writeImage(image, pauseImage, program); err != nil {
		t.Fatal(err)
	}
	show := func(args ...string) []byte {
		out, err := exec.Command("tar", append([]string{"-xOf", image}, args...)...).Output()
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	layer := show("layer.tar")
	config := show(configOf(t, show("manifest.json")))
	if !bytes.Contains(config, []byte("sha256:"+digest(layer))) {
		t.Errorf("the configuration %s does not name the layer", config)
	}
}

// configOf is the name of the configuration's file.
func configOf(t *testing.T, manifest []byte) string {
	t.Helper()
	_, rest, _ := strings.Cut(string(manifest), `"Config":"`)
	name, _, ok := strings.Cut(rest, `"`)
	if !ok {
		t.Fatalf("the manifest %s names no configuration", manifest)
	}
	return name
}
