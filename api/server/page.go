package server

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"net/url"
	"path"
	"regexp"
	"strings"
	"time"

	"github.com/oscarfed/oscarfed/api/server/respond"
	"github.com/oscarfed/oscarfed/api/ui"
	v1 "github.com/oscarfed/oscarfed/api/v1"
)

const (
	uiRoute     = "/ui"
	uiFileRoute = "/ui/{file}"
)

// pagePolicy lets the page load its own files, and call its own origin and the issuers that people
// log in at, and nothing else: no inline script or style, no frame, and no text that becomes markup
// (Trusted Types).
func pagePolicy(issuers []v1.LoginIssuer) string {
	connect := []string{"'self'"}
	for _, i := range issuers {
		// The text of an issuer is an operator's, and must not be able to end the directive.
		if u, err := url.Parse(i.Issuer); err == nil && i.ClientID != "" && u.Host != "" && !strings.ContainsAny(u.Host, ";, ") {
			connect = append(connect, u.Scheme+"://"+u.Host)
		}
	}
	return "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; frame-src 'self'; connect-src " + strings.Join(connect, " ") +
		"; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'"
}

// uploadPolicy lets the upload frame reach the one server that its address names, and nothing else.
// The frame's origin is opaque, wherever it is opened: nothing of the page or of the API is in its
// reach, and it knows no credentials, so that its address may be anybody's.
func uploadPolicy(r *http.Request) string {
	connect := "'none'"
	if u, err := url.Parse(r.URL.Query().Get("to")); err == nil && (u.Scheme == "https" || u.Scheme == "http") && originHost.MatchString(u.Host) {
		connect = u.Scheme + "://" + u.Host
	}
	return "sandbox allow-scripts; default-src 'none'; script-src 'self'; connect-src " + connect +
		"; base-uri 'none'; form-action 'none'; frame-ancestors 'self'; require-trusted-types-for 'script'; trusted-types 'none'"
}

// originHost is a host with or without a port: no wildcard, and nothing that ends a directive.
var originHost = regexp.MustCompile(`^([A-Za-z0-9.-]+|\[[0-9A-Fa-f:.]+\])(:[0-9]{1,5})?$`)

// pageFile is one file of the page, ready to be sent.
type pageFile struct {
	body, compressed []byte
	kind, tag        string
	// forever says that its name changes with its content.
	forever bool
}

// loadPage reads and compresses what is embedded; a Server does it once, when it is asked first.
func loadPage() (map[string]pageFile, error) {
	raw, err := ui.Files()
	if err != nil {
		return nil, err
	}
	files := make(map[string]pageFile, len(raw))
	for name, body := range raw {
		compressed, err := compress(body)
		if err != nil {
			return nil, err
		}
		hash := sha256.Sum256(body)
		files[name] = pageFile{
			body: body, compressed: compressed, kind: pageType(name), tag: hex.EncodeToString(hash[:12]),
			forever: name != ui.Index && name != ui.Icon && name != ui.Upload,
		}
	}
	return files, nil
}

func compress(body []byte) ([]byte, error) {
	var out bytes.Buffer
	z, err := gzip.NewWriterLevel(&out, gzip.BestCompression)
	if err != nil {
		return nil, err
	}
	if _, err := z.Write(body); err != nil {
		return nil, err
	}
	err = z.Close()
	return out.Bytes(), err
}

// pageType is the media type of a file, which does not depend on what the machine knows of types.
func pageType(name string) string {
	switch path.Ext(name) {
	case ".html":
		return "text/html; charset=utf-8"
	case ".js":
		return "text/javascript; charset=utf-8"
	case ".css":
		return "text/css; charset=utf-8"
	case ".svg":
		return "image/svg+xml"
	}
	return "application/octet-stream"
}

// front answers GET /: a browser is led to the page. Other clients are told what an OSCAR tells them.
func (s *Server) front(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Vary", "Accept")
	if !strings.Contains(r.Header.Get("Accept"), "text/html") {
		s.notFound(w, r)
		return
	}
	w.Header().Set("Location", uiRoute)
	w.WriteHeader(http.StatusFound)
}

// page answers GET /ui.
func (s *Server) page(w http.ResponseWriter, r *http.Request) error {
	return s.servePage(w, r, ui.Index)
}

// pageFile answers GET /ui/{file}.
func (s *Server) pageFile(w http.ResponseWriter, r *http.Request) error {
	return s.servePage(w, r, pathParam(r, "file"))
}

func (s *Server) servePage(w http.ResponseWriter, r *http.Request, name string) error {
	files, err := s.pageFiles()
	if err != nil {
		return err
	}
	file, ok := files[name]
	if !ok {
		respond.Text(w, http.StatusNotFound, "404 page not found")
		return nil
	}
	h := w.Header()
	h.Set("Content-Security-Policy", pagePolicy(s.cfg.LoginIssuers))
	switch {
	case name == ui.Upload:
		h.Set("Content-Security-Policy", uploadPolicy(r))
	case file.forever:
		// The frame, whose origin is opaque, loads its script as a foreign page would.
		h.Set("Cross-Origin-Resource-Policy", "cross-origin")
	}
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Content-Type", file.kind)
	h.Set("Vary", "Accept-Encoding")
	h.Set("Cache-Control", "no-cache")
	if file.forever {
		h.Set("Cache-Control", "public, max-age=31536000, immutable")
	}
	body, tag := file.body, file.tag
	if strings.Contains(r.Header.Get("Accept-Encoding"), "gzip") {
		h.Set("Content-Encoding", "gzip")
		body, tag = file.compressed, tag+"-gzip"
	}
	h.Set("ETag", `"`+tag+`"`)
	http.ServeContent(w, r, name, time.Time{}, bytes.NewReader(body))
	return nil
}
