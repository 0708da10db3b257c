package oscarsim

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// maxUpload is how much one upload may have, in bytes.
const maxUpload = 16 << 20

// presigned is a link to an object of the MinIO beside this OSCAR. It is signed with the MinIO's root
// key, though not as Amazon's version 4 does.
func (s *Sim) presigned(method, bucket, object string, until time.Time) string {
	own := s.cfg.provider()
	link, err := url.Parse(own.Endpoint)
	if err != nil {
		return own.Endpoint
	}
	link.Path = "/" + bucket + "/" + object
	expires := strconv.FormatInt(until.Unix(), 10)
	link.RawQuery = url.Values{"X-Amz-Expires": {expires}, "X-Amz-Signature": {s.signature(method, link.Path, expires)}}.Encode()
	return link.String()
}

func (s *Sim) signature(method, path, expires string) string {
	mac := hmac.New(sha256.New, []byte(s.cfg.provider().SecretKey))
	fmt.Fprintf(mac, "%s\n%s\n%s", method, path, expires)
	return hex.EncodeToString(mac.Sum(nil))
}

// Objects serves the presigned links of this OSCAR's MinIO, at the endpoint that Config.MinIO names.
// As a MinIO does unless it is told otherwise, it lets pages of every origin in.
func (s *Sim) Objects() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if origin := r.Header.Get("Origin"); origin != "" {
			w.Header().Set("Access-Control-Allow-Origin", origin)
			w.Header().Set("Vary", "Origin")
		}
		if r.Method == http.MethodOptions {
			w.Header().Set("Access-Control-Allow-Methods", "GET, PUT")
			w.Header().Set("Access-Control-Allow-Headers", r.Header.Get("Access-Control-Request-Headers"))
			w.WriteHeader(http.StatusNoContent)
			return
		}
		query := r.URL.Query()
		expires, err := strconv.ParseInt(query.Get("X-Amz-Expires"), 10, 64)
		signed := s.signature(r.Method, r.URL.Path, query.Get("X-Amz-Expires"))
		if err != nil || time.Now().After(time.Unix(expires, 0)) || !hmac.Equal([]byte(signed), []byte(query.Get("X-Amz-Signature"))) {
			http.Error(w, "<Error><Code>AccessDenied</Code></Error>", http.StatusForbidden)
			return
		}
		bucket, name, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
		switch r.Method {
		case http.MethodGet:
			s.sendObject(w, r, bucket, name)
		case http.MethodPut:
			s.takeObject(w, r, bucket, name)
		default:
			w.WriteHeader(http.StatusMethodNotAllowed)
		}
	})
}

func (s *Sim) sendObject(w http.ResponseWriter, r *http.Request, bucket, name string) {
	s.mu.Lock()
	var found object
	var ok bool
	if b := s.minio.buckets[bucket]; b != nil {
		found, ok = b.objects[name]
	}
	s.mu.Unlock()
	if !ok {
		http.Error(w, "<Error><Code>NoSuchKey</Code></Error>", http.StatusNotFound)
		return
	}
	w.Header().Set("Content-Type", "application/octet-stream")
	http.ServeContent(w, r, "", found.modified, bytes.NewReader(found.content))
}

func (s *Sim) takeObject(w http.ResponseWriter, r *http.Request, bucket, name string) {
	content, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxUpload))
	if err != nil {
		http.Error(w, "<Error><Code>EntityTooLarge</Code></Error>", http.StatusBadRequest)
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.upload(bucket, name, int64(len(content))); err != nil {
		http.Error(w, "<Error><Code>NoSuchBucket</Code></Error>", http.StatusNotFound)
		return
	}
	b := s.minio.buckets[bucket]
	stored := b.objects[name]
	stored.content = content
	b.objects[name] = stored
}
