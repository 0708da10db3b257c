package server

import (
	"bytes"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/json"
	"maps"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

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

const (
	// acceptedFor is how long credentials count as accepted, and maxAccepted how many are
	// remembered.
	acceptedFor = time.Hour
	maxAccepted = 10_000
)

// accepted remembers which credentials were accepted from which address. They are verified even
// while other credentials from that address fail without end. It keeps a hash under a key that
// this process alone has.
type accepted struct {
	key [sha256.Size]byte

	mu   sync.Mutex
	when map[[sha256.Size]byte]time.Time
}

func newAccepted() *accepted {
	a := &accepted{when: map[[sha256.Size]byte]time.Time{}}
	_, _ = rand.Read(a.key[:]) // it never fails
	return a
}

func (a *accepted) hash(r *http.Request) (out [sha256.Size]byte) {
	mac := hmac.New(sha256.New, a.key[:])
	mac.Write([]byte(addressKey(r) + "\n" + r.Header.Get("Authorization")))
	mac.Sum(out[:0])
	return out
}

// has says whether the credentials of a request were accepted from its address lately.
func (a *accepted) has(r *http.Request) bool {
	key := a.hash(r)
	a.mu.Lock()
	defer a.mu.Unlock()
	at, ok := a.when[key]
	return ok && time.Since(at) < acceptedFor
}

// note remembers that they were accepted, or forgets it.
func (a *accepted) note(r *http.Request, good bool) {
	key := a.hash(r)
	a.mu.Lock()
	defer a.mu.Unlock()
	if !good {
		delete(a.when, key)
		return
	}
	if _, ok := a.when[key]; !ok && len(a.when) >= maxAccepted {
		drop := maxAccepted / 10 // of any: they count as accepted again with their next request
		maps.DeleteFunc(a.when, func([sha256.Size]byte, time.Time) bool {
			drop--
			return drop >= 0
		})
	}
	a.when[key] = time.Now()
}
