package server

import (
	"bytes"
	"encoding/json"
	"net/http"
)

// listFlush is how much of a list is collected before it is sent. A shorter one is
// sent whole, so that an error can still be its answer.
const listFlush = 256 << 10

// listWriter sends a JSON array as its elements come, in the form of writeOSCAR.
type listWriter struct {
	w   http.ResponseWriter
	buf bytes.Buffer
	// any says that there was an element, and begun that some of them are sent.
	any, begun bool
}

// add fails when an element cannot be encoded. A caller that went away is noticed by
// the context of his request.
func (l *listWriter) add(v any) error {
	element, err := json.Marshal(v)
	if err != nil {
		return err
	}
	l.separate()
	l.buf.Write(element)
	if l.buf.Len() >= listFlush {
		l.send()
	}
	return nil
}

func (l *listWriter) separate() {
	if l.any {
		l.buf.WriteByte(',')
		return
	}
	l.any = true
	l.buf.WriteByte('[')
}

// end sends what is left.
func (l *listWriter) end() {
	if !l.any {
		l.buf.WriteByte('[')
	}
	l.buf.WriteByte(']')
	if !l.begun {
		writeBody(l.w, http.StatusOK, mediaJSON, l.buf.Bytes())
		return
	}
	l.send()
}

func (l *listWriter) send() {
	if !l.begun {
		l.begun = true
		answerHeader(l.w, mediaJSON)
		l.w.WriteHeader(http.StatusOK)
	}
	_, _ = l.w.Write(l.buf.Bytes()) // the caller has gone: the error has no reader
	l.buf.Reset()
}
