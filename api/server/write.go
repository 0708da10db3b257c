package server

import (
	"bytes"
	"encoding/json"
	"net/http"
	"strconv"
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
