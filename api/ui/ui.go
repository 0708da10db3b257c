package ui

import (
	"embed"
	"io/fs"
)

//go:embed dist
var dist embed.FS

// Names that stay; those of the other files have the hash of their content. Index is the page, and
// Upload the frame in which it sends files to a MinIO.
const (
	Index  = "index.html"
	Icon   = "icon.svg"
	Upload = "upload.html"
)

// Files are the contents of the page and of what it loads, by name.
func Files() (map[string][]byte, error) {
	entries, err := fs.ReadDir(dist, "dist")
	if err != nil {
		return nil, err
	}
	files := make(map[string][]byte, len(entries))
	for _, e := range entries {
		body, err := dist.ReadFile("dist/" + e.Name())
		if err != nil {
			return nil, err
		}
		files[e.Name()] = body
	}
	return files, nil
}
