package images

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"errors"
	"time"
)

// user is the user that the images run as: not root.
const user = 65532

// Media types of the OCI image specification.
const (
	typeIndex    = "application/vnd.oci.image.index.v1+json"
	typeManifest = "application/vnd.oci.image.manifest.v1+json"
	typeConfig   = "application/vnd.oci.image.config.v1+json"
	typeLayer    = "application/vnd.oci.image.layer.v1.tar+gzip"
)

// architectures that images are built for.
func architectures() []string { return []string{"amd64", "arm64"} }

// blob is some content and what it is.
type blob struct {
	mediaType string
	data      []byte
}

// digest names content.
func digest(data []byte) string {
	sum := sha256.Sum256(data)
	return "sha256:" + hex.EncodeToString(sum[:])
}

// image is an image index with everything that it refers to.
type image struct {
	// root is the digest of the index.
	root  string
	blobs map[string]blob
}

func (i *image) put(mediaType string, data []byte) descriptor {
	d := digest(data)
	i.blobs[d] = blob{mediaType, data}
	return descriptor{MediaType: mediaType, Digest: d, Size: len(data)}
}

func (i *image) putJSON(mediaType string, v any) (descriptor, error) {
	data, err := json.Marshal(v)
	if err != nil {
		return descriptor{}, err
	}
	return i.put(mediaType, data), nil
}

type descriptor struct {
	MediaType string    `json:"mediaType"` //nolint:tagliatelle // the name in the OCI image specification
	Digest    string    `json:"digest"`
	Size      int       `json:"size"`
	Platform  *platform `json:"platform,omitempty"`
}

type platform struct {
	Architecture string `json:"architecture"`
	OS           string `json:"os"`
}

type manifest struct {
	SchemaVersion int          `json:"schemaVersion"` //nolint:tagliatelle // as above
	MediaType     string       `json:"mediaType"`     //nolint:tagliatelle // as above
	Config        descriptor   `json:"config"`
	Layers        []descriptor `json:"layers"`
}

type index struct {
	SchemaVersion int          `json:"schemaVersion"` //nolint:tagliatelle // as above
	MediaType     string       `json:"mediaType"`     //nolint:tagliatelle // as above
	Manifests     []descriptor `json:"manifests"`
}

// baseImage has what a program without libraries needs of a system: CA certificates,
// a name for its user, and folders that this user may write to.
func baseImage(cas []byte) (*image, error) {
	if block, _ := pem.Decode(cas); block == nil || block.Type != "CERTIFICATE" {
		return nil, errors.New("the CA certificates are not PEM")
	}
	plain, err := layer(cas)
	if err != nil {
		return nil, err
	}
	var packed bytes.Buffer
	w := gzip.NewWriter(&packed)
	if _, err = w.Write(plain); err != nil {
		return nil, err
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	out := &image{blobs: map[string]blob{}}
	layer := out.put(typeLayer, packed.Bytes())
	all := index{SchemaVersion: 2, MediaType: typeIndex}
	for _, arch := range architectures() {
		config, err := out.putJSON(typeConfig, map[string]any{
			"architecture": arch, "os": "linux",
			"config": map[string]any{
				"User": "65532:65532", "WorkingDir": "/",
				"Env": []string{"SSL_CERT_FILE=/etc/ssl/certs/ca-certificates.crt"},
			},
			"rootfs":  map[string]any{"type": "layers", "diff_ids": []string{digest(plain)}},
			"history": []map[string]any{{"created_by": "oscarfed: CA certificates, user, folders"}},
		})
		if err != nil {
			return nil, err
		}
		one, err := out.putJSON(typeManifest, manifest{SchemaVersion: 2, MediaType: typeManifest, Config: config, Layers: []descriptor{layer}})
		if err != nil {
			return nil, err
		}
		one.Platform = &platform{arch, "linux"}
		all.Manifests = append(all.Manifests, one)
	}
	root, err := out.putJSON(typeIndex, all)
	if err != nil {
		return nil, err
	}
	out.root = root.Digest
	return out, nil
}

// layer is the file system as a tar archive, with no time in it.
func layer(cas []byte) ([]byte, error) {
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	for _, f := range []struct {
		name  string
		mode  int64
		owner int
		data  []byte
	}{
		{"etc/", 0o755, 0, nil},
		{"etc/group", 0o644, 0, []byte("root:x:0:\nnonroot:x:65532:\n")},
		{"etc/passwd", 0o644, 0, []byte("root:x:0:0:root:/:/none\nnonroot:x:65532:65532:oscarfed:/:/none\n")},
		{"etc/ssl/", 0o755, 0, nil},
		{"etc/ssl/certs/", 0o755, 0, nil},
		{"etc/ssl/certs/ca-certificates.crt", 0o644, 0, cas},
		{"tmp/", 0o1777, 0, nil},
		{"var/", 0o755, 0, nil},
		{"var/lib/", 0o755, 0, nil},
		// The default data directories: a volume that is mounted there begins as their owner's.
		{"var/lib/oscarfed/", 0o700, user, nil},
		{"var/lib/oscarfed-syncer/", 0o700, user, nil},
	} {
		h := &tar.Header{
			Typeflag: tar.TypeReg, Name: f.name, Mode: f.mode, Uid: f.owner, Gid: f.owner, Size: int64(len(f.data)),
			ModTime: time.Unix(0, 0).UTC(), Format: tar.FormatPAX,
		}
		if f.data == nil {
			h.Typeflag = tar.TypeDir
		}
		if err := w.WriteHeader(h); err != nil {
			return nil, err
		}
		if _, err := w.Write(f.data); err != nil {
			return nil, err
		}
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}
