package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"
)

// entry is a file of an archive, from a path or from memory.
type entry struct {
	name, path string
	data       []byte
	mode       int64
}

// manifestName is the file of a tarball of images that lists them.
const manifestName = "manifest.json"

// writeArchive writes a tar archive with gzip, whose bytes depend on nothing but the names, modes and
// contents of its files, and on when.
func writeArchive(path string, files []entry, when time.Time) (err error) {
	files = slices.Clone(files)
	slices.SortFunc(files, func(a, b entry) int { return strings.Compare(a.name, b.name) })
	file, err := os.Create(path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	packed, err := gzip.NewWriterLevel(file, gzip.BestCompression)
	if err != nil {
		return err
	}
	archive := tar.NewWriter(packed)
	for _, f := range files {
		if f.path != "" {
			if f.data, err = os.ReadFile(f.path); err != nil {
				return err
			}
		}
		header := &tar.Header{Name: f.name, Mode: f.mode, Size: int64(len(f.data)), ModTime: when, Format: tar.FormatUSTAR}
		if err := archive.WriteHeader(header); err != nil {
			return fmt.Errorf("%s: %w", f.name, err)
		}
		if _, err := archive.Write(f.data); err != nil {
			return fmt.Errorf("%s: %w", f.name, err)
		}
	}
	return errors.Join(archive.Close(), packed.Close())
}

// rewriteArchive writes a tar archive with gzip anew.
func rewriteArchive(to, from string, when time.Time) (err error) {
	file, err := os.Open(from)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	unpacked, err := gzip.NewReader(file)
	if err != nil {
		return err
	}
	files, err := entries(unpacked)
	if err != nil {
		return err
	}
	return writeArchive(to, files, when)
}

// sortImages writes a tarball of images anew, with gzip.
func sortImages(to, from string, when time.Time) (err error) {
	file, err := os.Open(from)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	files, err := entries(file)
	if err != nil {
		return err
	}
	for i := range files {
		if files[i].name != manifestName {
			continue
		}
		var images []map[string]any
		if err := json.Unmarshal(files[i].data, &images); err != nil {
			return fmt.Errorf("%s: %w", manifestName, err)
		}
		slices.SortFunc(images, func(a, b map[string]any) int {
			return strings.Compare(fmt.Sprint(a["RepoTags"]), fmt.Sprint(b["RepoTags"]))
		})
		if files[i].data, err = json.Marshal(images); err != nil {
			return err
		}
	}
	return writeArchive(to, files, when)
}

// entries are the regular files of a tar archive. One that is there several times counts once, as images
// share layers.
func entries(from io.Reader) ([]entry, error) {
	var out []entry
	seen := map[string]bool{}
	archive := tar.NewReader(from)
	for {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return out, nil
		}
		if err != nil {
			return nil, err
		}
		if header.Typeflag != tar.TypeReg || seen[header.Name] {
			continue
		}
		seen[header.Name] = true
		var data bytes.Buffer
		if _, err := io.Copy(&data, archive); err != nil { //nolint:gosec // we have built it
			return nil, err
		}
		out = append(out, entry{name: header.Name, data: data.Bytes(), mode: 0o644})
	}
}
