package respond

import (
	"bytes"
	"encoding/json"
	"net/http"
	"strconv"
	"unicode/utf8"
)

// Text answers with text as gin does: no newline at the end.
func Text(w http.ResponseWriter, status int, text string) {
	Body(w, status, "text/plain; charset=utf-8", []byte(text))
}

// OSCAR answers one of OSCAR's own paths: compact JSON with gin's HTML
// escapes, since clients match substrings of it.
func OSCAR(w http.ResponseWriter, v any) error {
	body, err := json.Marshal(v)
	if err != nil {
		return err
	}
	Body(w, http.StatusOK, MediaJSON, body)
	return nil
}

// MediaJSON is JSON as gin, and so OSCAR, calls it.
const MediaJSON = "application/json; charset=utf-8"

// JSON answers one of our own paths: compact JSON without HTML escapes.
func JSON(w http.ResponseWriter, status int, v any) error {
	return writeJSONType(w, status, MediaJSON, v)
}

func writeJSONType(w http.ResponseWriter, status int, mediaType string, v any) error {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return err
	}
	Body(w, status, mediaType, bytes.TrimSuffix(b.Bytes(), []byte("\n")))
	return nil
}

// Body sends a whole answer.
func Body(w http.ResponseWriter, status int, mediaType string, body []byte) {
	Header(w, mediaType)
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(status)
	_, _ = w.Write(body) // the caller has gone: the error has no reader
}

// Header says what an answer is. Answers hold tokens of services and states that change by
// themselves: no cache may keep them.
func Header(w http.ResponseWriter, mediaType string) {
	h := w.Header()
	h.Set("Content-Type", mediaType)
	if h.Get("Cache-Control") == "" { // a handler knows better of an answer that is the same for everybody
		h.Set("Cache-Control", "no-store")
	}
}

// IfMatch binds a change to a revision.
const IfMatch = "If-Match"

// Cut shortens a text of the caller to at most n bytes, between two characters, and three dots.
func Cut(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n] + "..."
}
