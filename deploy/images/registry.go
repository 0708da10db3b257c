package images

import (
	"net/http"
	"strconv"
)

// Names of the registry and of its one image. They are in the images that ko builds on it, as
// annotations, and therefore do not contain the port. ko speaks plain HTTP to a .localhost.
const (
	registryName   = "images.oscarfed.localhost"
	repositoryName = "base"
)

// registry answers reads of an image as the OCI distribution specification says, and nothing else.
// Every name is a digest, so a reader can verify that it was not changed.
func registry(i *image) http.Handler {
	content := func(w http.ResponseWriter, r *http.Request) {
		b, ok := i.blobs[r.PathValue("digest")]
		if !ok {
			http.Error(w, `{"errors":[{"code":"BLOB_UNKNOWN"}]}`, http.StatusNotFound)
			return
		}
		w.Header().Set("Content-Type", b.mediaType)
		w.Header().Set("Content-Length", strconv.Itoa(len(b.data)))
		w.Header().Set("Docker-Content-Digest", r.PathValue("digest"))
		if r.Method == http.MethodGet {
			w.Write(b.data) //nolint:errcheck // the reader sees that it is cut off
		}
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /v2/{$}", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusOK) })
	mux.HandleFunc("GET /v2/"+repositoryName+"/manifests/{digest}", content)
	mux.HandleFunc("GET /v2/"+repositoryName+"/blobs/{digest}", content)
	return mux
}
