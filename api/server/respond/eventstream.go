package respond

import (
	"bytes"
	"encoding/json"
	"errors"
	"net/http"
	"strconv"
	"time"
)

// eventWrite is how long a client may take to read one event. A slower one is
// cut: it can resume, and the others do not pay for it.
const eventWrite = 10 * time.Second

// EventStream writes server-sent events, each one flushed.
type EventStream struct {
	w  http.ResponseWriter
	rc *http.ResponseController
}

// NewEventStream sends the head of the answer.
func NewEventStream(w http.ResponseWriter) (*EventStream, error) {
	h := w.Header()
	h.Set("Content-Type", "text/event-stream")
	h.Set("Cache-Control", "no-store")
	h.Set("X-Accel-Buffering", "no") // a proxy that collects events holds them back
	w.WriteHeader(http.StatusOK)
	s := &EventStream{w: w, rc: http.NewResponseController(w)}
	return s, s.write(nil)
}

// Event writes one event; id is left out when it is 0.
func (s *EventStream) Event(name string, id int64, v any) error {
	var b bytes.Buffer
	b.WriteString("event: " + name + "\n")
	if id != 0 {
		b.WriteString("id: " + strconv.FormatInt(id, 10) + "\n")
	}
	b.WriteString("data: ")
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil { // one line: the newline that it ends with is the field's
		return err
	}
	b.WriteByte('\n')
	return s.write(b.Bytes())
}

// Ping keeps proxies from closing a stream on which nothing happens, and finds out that its reader
// is gone.
func (s *EventStream) Ping() error { return s.write([]byte(": ping\n\n")) }

// write sends data within eventWrite. Between two writes there is no deadline:
// HTTP/2 would end the stream when it passes.
func (s *EventStream) write(data []byte) error {
	if err := s.deadline(time.Now().Add(eventWrite)); err != nil {
		return err
	}
	if _, err := s.w.Write(data); err != nil {
		return err
	}
	if err := s.rc.Flush(); err != nil {
		return err
	}
	return s.deadline(time.Time{})
}

func (s *EventStream) deadline(t time.Time) error {
	if err := s.rc.SetWriteDeadline(t); err != nil && !errors.Is(err, http.ErrNotSupported) {
		return err
	}
	return nil
}
