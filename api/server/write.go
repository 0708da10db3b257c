package server

import (
	"bytes"
	"encoding/json"
	"net/http"
	"strconv"
	"strings"

	"github.com/oscarfed/oscarfed/controlplane/fault"
)

// writeText answers with text as gin does: no newline at the end.
func writeText(w http.ResponseWriter, status int, text string) {
	writeBody(w, status, "text/plain; charset=utf-8", []byte(text))
}

// writeOSCAR answers one of OSCAR's own paths: compact JSON with gin's HTML
// escapes, since clients match substrings of it.
func writeOSCAR(w http.ResponseWriter, v any) error {
	body, err := json.Marshal(v)
	if err != nil {
		return err
	}
	writeBody(w, http.StatusOK, mediaJSON, body)
	return nil
}

// mediaJSON is JSON as gin, and so OSCAR, calls it.
const mediaJSON = "application/json; charset=utf-8"

// writeJSON answers one of our own paths: compact JSON without HTML escapes.
func writeJSON(w http.ResponseWriter, status int, v any) error {
	return writeJSONType(w, status, mediaJSON, v)
}

func writeJSONType(w http.ResponseWriter, status int, mediaType string, v any) error {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return err
	}
	writeBody(w, status, mediaType, bytes.TrimSuffix(b.Bytes(), []byte("\n")))
	return nil
}

// writeBody sends a whole answer.
func writeBody(w http.ResponseWriter, status int, mediaType string, body []byte) {
	answerHeader(w, mediaType)
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(status)
	_, _ = w.Write(body) // the caller has gone: the error has no reader
}

// answerHeader says what an answer is. Answers hold tokens of services and states that change by
// themselves: no cache may keep them.
func answerHeader(w http.ResponseWriter, mediaType string) {
	h := w.Header()
	h.Set("Content-Type", mediaType)
	h.Set("Cache-Control", "no-store")
}

const ifMatchHeader = "If-Match"

// ifMatch reads the revision that a change is bound to: "<revision>" in quotes,
// also as a weak tag, since proxies make weak ones of ours. 0 binds to none: the
// header is absent, or it is *, which everything that exists matches. A tag that
// no federation can have is a conflict, and never taken for no tag.
func (p *params) ifMatch() (int64, error) {
	values := p.r.Header.Values(ifMatchHeader)
	if len(values) == 0 {
		return 0, nil
	}
	if len(values) > 1 || strings.Contains(values[0], ",") {
		p.violate(ifMatchHeader, "unique", nil, "several entity tags are given; a change is bound to one")
		return 0, nil
	}
	v := strings.TrimSpace(values[0])
	if v == "*" {
		return 0, nil
	}
	tag := strings.TrimPrefix(v, "W/")
	if len(tag) < 2 || tag[0] != '"' || tag[len(tag)-1] != '"' {
		p.violate(ifMatchHeader, "type", nil, `it is no entity tag; send the ETag of an answer as it is, for example "4711" with the quotes, or *`)
		return 0, nil
	}
	revision, err := strconv.ParseInt(tag[1:len(tag)-1], 10, 64)
	if err != nil || revision <= 0 || etag(revision) != tag {
		return 0, errorf(fault.CodeConflict, "no revision of a federation has the entity tag %s; GET it again and decide anew", cut(v, 40))
	}
	return revision, nil
}
