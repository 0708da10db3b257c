package images

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
)

const someCA = "-----BEGIN CERTIFICATE-----\nMAA=\n-----END CERTIFICATE-----\n"

// get reads from the registry as a client does, which checks what it is given.
func get(t *testing.T, url, want string) []byte {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url+want, nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("%s: status %d, error %v", want, resp.StatusCode, err)
	}
	if got := digest(data); got != want {
		t.Fatalf("%s has digest %s", want, got)
	}
	return data
}

func TestTheRegistryServesTheBaseImage(t *testing.T) {
	base, err := baseImage([]byte(someCA))
	if err != nil {
		t.Fatal(err)
	}
	address, stop, err := serve(t.Context(), registry(base))
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	manifests, blobs := "http://"+address+"/v2/base/manifests/", "http://"+address+"/v2/base/blobs/"
	var all index
	unmarshal(t, get(t, manifests, base.root), &all)
	if len(all.Manifests) != len(architectures()) {
		t.Fatalf("%d architectures", len(all.Manifests))
	}
	for i, arch := range architectures() {
		if all.Manifests[i].Platform == nil || all.Manifests[i].Platform.Architecture != arch {
			t.Errorf("image %d is for %+v", i, all.Manifests[i].Platform)
		}
		var one manifest
		unmarshal(t, get(t, manifests, all.Manifests[i].Digest), &one)
		var config struct {
			Architecture string `json:"architecture"`
			Config       struct{ User string }
			RootFS       struct {
				IDs []string `json:"diff_ids"`
			} `json:"rootfs"`
		}
		unmarshal(t, get(t, blobs, one.Config.Digest), &config)
		if config.Architecture != arch || config.Config.User != "65532:65532" {
			t.Errorf("config %+v", config)
		}
		files := untar(t, get(t, blobs, one.Layers[0].Digest), config.RootFS.IDs[0])
		if files["etc/ssl/certs/ca-certificates.crt"].Mode != 0o644 || files["var/lib/oscarfed/"].Uid != user || files["var/lib/oscarfed/"].Mode != 0o700 {
			t.Errorf("files %+v", files)
		}
	}
	for path, want := range map[string]int{"/v2/": 200, "/v2/base/blobs/" + digest(nil): 404, "/v2/other/manifests/" + base.root: 404} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodHead, "http://"+address+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		if resp.Body.Close(); resp.StatusCode != want {
			t.Errorf("%s answers %d, not %d", path, resp.StatusCode, want)
		}
	}
}

func unmarshal(t *testing.T, data []byte, v any) {
	t.Helper()
	if err := json.Unmarshal(data, v); err != nil {
		t.Fatal(err)
	}
}

// untar are the headers of a layer, whose plain digest must be id.
func untar(t *testing.T, packed []byte, id string) map[string]*tar.Header {
	t.Helper()
	z, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		t.Fatal(err)
	}
	plain, err := io.ReadAll(z)
	if err != nil {
		t.Fatal(err)
	}
	if digest(plain) != id {
		t.Errorf("the layer is %s, not %s", digest(plain), id)
	}
	files := map[string]*tar.Header{}
	r := tar.NewReader(bytes.NewReader(plain))
	for {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return files
		}
		if err != nil {
			t.Fatal(err)
		}
		files[h.Name] = h
	}
}

func TestTheBaseImageIsTheSameEachTime(t *testing.T) {
	a, err := baseImage([]byte(someCA))
	if err != nil {
		t.Fatal(err)
	}
	b, err := baseImage([]byte(someCA))
	if err != nil || a.root != b.root {
		t.Errorf("%s, then %s, error %v", a.root, b.root, err)
	}
	if c, err := baseImage([]byte(someCA + someCA)); err != nil || c.root == a.root {
		t.Errorf("other certificates make the same image; error %v", err)
	}
	if _, err := baseImage([]byte("junk")); err == nil {
		t.Error("junk is taken for certificates")
	}
}

func TestAReleaseIsATag(t *testing.T) {
	err := Build(t.Context(), Config{Release: "v1.2.3+build"}, io.Discard, io.Discard)
	if err == nil || !strings.Contains(err.Error(), "tag") {
		t.Errorf("error %v", err)
	}
}
