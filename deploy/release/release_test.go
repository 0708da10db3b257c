package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	spdxjson "github.com/spdx/tools-golang/json"
)

var when = time.Unix(1_700_000_000, 0).UTC()

func read(t *testing.T, path string) []byte {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func write(t *testing.T, path string, data []byte) string {
	t.Helper()
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// tarball is a tar archive as a tool writes it: in any order, with times and owners.
func tarball(t *testing.T, files ...entry) []byte {
	t.Helper()
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	for i, f := range files {
		header := &tar.Header{Name: f.name, Mode: 0o600, Size: int64(len(f.data)), ModTime: time.Now().Add(time.Duration(i) * time.Hour), Uname: "builder"}
		if err := w.WriteHeader(header); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write(f.data); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// Order, times and owners of what is packed do not show in an archive.
func TestTheSameFilesGiveTheSameArchive(t *testing.T) {
	dir := t.TempDir()
	a, b := entry{name: "x/a", data: []byte("a"), mode: 0o755}, entry{name: "x/b", path: write(t, filepath.Join(dir, "b"), []byte("b")), mode: 0o644}
	for name, files := range map[string][]entry{"one": {a, b}, "two": {b, a}} {
		if err := writeArchive(filepath.Join(dir, name), files, when); err != nil {
			t.Fatal(err)
		}
	}
	if !bytes.Equal(read(t, filepath.Join(dir, "one")), read(t, filepath.Join(dir, "two"))) {
		t.Error("two archives of the same files differ")
	}
	unpacked, err := gzip.NewReader(bytes.NewReader(read(t, filepath.Join(dir, "one"))))
	if err != nil {
		t.Fatal(err)
	}
	archive := tar.NewReader(unpacked)
	first, err := archive.Next()
	if err != nil || first.Name != "x/a" || first.Mode != 0o755 || !first.ModTime.Equal(when) || first.Uid != 0 || first.Uname != "" {
		t.Errorf("%+v, %v", first, err)
	}
	if data, err := io.ReadAll(archive); err != nil || string(data) != "a" {
		t.Errorf("%q, %v", data, err)
	}
}

func TestImagesAreSorted(t *testing.T) {
	dir := t.TempDir()
	one, two := `{"Config":"1","RepoTags":["oscarfed/a:v1"]}`, `{"RepoTags":["oscarfed/b:v1"],"Config":"2"}`
	layer := entry{name: "layer", data: []byte("shared")}
	for name, files := range map[string][]entry{
		"one": {layer, {name: "1", data: []byte("1")}, {name: manifestName, data: []byte("[" + one + "," + two + "]")}},
		"two": {{name: manifestName, data: []byte("[" + two + "," + one + "]")}, layer, layer, {name: "1", data: []byte("1")}},
	} {
		from := write(t, filepath.Join(dir, name+".tar"), tarball(t, files...))
		if err := sortImages(filepath.Join(dir, name), from, when); err != nil {
			t.Fatal(err)
		}
	}
	if !bytes.Equal(read(t, filepath.Join(dir, "one")), read(t, filepath.Join(dir, "two"))) {
		t.Error("two tarballs of the same images differ")
	}
}

func TestAChartIsPackedAnew(t *testing.T) {
	dir := t.TempDir()
	for i, name := range []string{"one", "two"} {
		var packed bytes.Buffer
		w := gzip.NewWriter(&packed)
		w.ModTime = time.Now().Add(time.Duration(i) * time.Hour)
		if _, err := w.Write(tarball(t, entry{name: "oscarfed/Chart.yaml", data: []byte("name: oscarfed\n")})); err != nil {
			t.Fatal(err)
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		if err := rewriteArchive(filepath.Join(dir, name), write(t, filepath.Join(dir, name+".tgz"), packed.Bytes()), when); err != nil {
			t.Fatal(err)
		}
	}
	if !bytes.Equal(read(t, filepath.Join(dir, "one")), read(t, filepath.Join(dir, "two"))) {
		t.Error("two packages of the same chart differ")
	}
}

func TestSections(t *testing.T) {
	const changelog = "# Changelog\n\n## Unreleased\n\n- c\n\n## 0.2.0 - 2026-12-01\n\n- b\n\n## [0.1.0]\n\n- a\n"
	for word, want := range map[string]string{
		"0.2.0": "## 0.2.0 - 2026-12-01\n\n- b\n\n", "0.1.0": "## [0.1.0]\n\n- a\n", "Unreleased": "## Unreleased\n\n- c\n\n", "0.3.0": "",
	} {
		if got, ok := sectionOf(changelog, word); got != want || ok != (want != "") {
			t.Errorf("%s: %q, %v", word, got, ok)
		}
	}
}

// What a program says of its own modules is in the list, with names that SPDX allows.
func TestContents(t *testing.T) {
	r := &release{config: config{version: "v1.2.3", out: t.TempDir()}, commit: "c0ffee", when: when}
	own, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	if err := r.contents("name", []string{own}); err != nil {
		t.Fatal(err)
	}
	doc, err := spdxjson.Read(bytes.NewReader(read(t, filepath.Join(r.out, "name.spdx.json"))))
	if err != nil {
		t.Fatal(err)
	}
	names := map[string]string{}
	for _, p := range doc.Packages {
		names[p.PackageName] = p.PackageVersion
		if strings.ContainsAny(string(p.PackageSPDXIdentifier), "/_@ ") {
			t.Errorf("%s is no identifier of SPDX", p.PackageSPDXIdentifier)
		}
	}
	if names[ourModule] != "v1.2.3" || !strings.HasPrefix(names["stdlib"], "go1.") || names["github.com/spdx/tools-golang"] == "" ||
		doc.CreationInfo.Created != "2023-11-14T22:13:20Z" || len(doc.Relationships) != len(doc.Packages) {
		t.Errorf("%+v", doc)
	}
}

func TestSums(t *testing.T) {
	r := &release{config: config{out: t.TempDir()}}
	write(t, filepath.Join(r.out, "b"), []byte("b"))
	write(t, filepath.Join(r.out, "a"), nil)
	if err := r.sums(t.Context()); err != nil {
		t.Fatal(err)
	}
	const want = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855  a\n3e23e8160039594a33894f6564e1b1348bbd7a0088d42c4acb73eeaed59c009d  b\n"
	if got := string(read(t, filepath.Join(r.out, "SHA256SUMS"))); got != want {
		t.Errorf("%s", got)
	}
}

func TestVersionsThatAreNone(t *testing.T) {
	for _, version := range []string{"", "1.2.3", "v1.2", "v1.2.3+x", "v01.2.3", "v1.2.3/..", "latest"} {
		if err := build(t.Context(), config{version: version, out: t.TempDir()}, io.Discard, io.Discard); err == nil || !strings.Contains(err.Error(), "v1.2.3") {
			t.Errorf("%q: %v", version, err)
		}
	}
}
