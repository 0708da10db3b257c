package client

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"strconv"
)

// maxEvent in bytes of one event; a federation of 120 replicas takes some 50 KB.
const maxEvent = 4 << 20

var (
	errEventSize = fmt.Errorf("an event is larger than %d bytes", maxEvent)
	// errStreamEnd is the end of a stream between two events.
	errStreamEnd = errors.New("the stream has ended")
)

// event is one server-sent event.
type event struct {
	name string
	id   int64
	data []byte
}

// eventReader reads server-sent events as the control plane writes them: fields
// of one line each, in the encoding of the HTML standard.
type eventReader struct {
	lines *bufio.Scanner
	// alive is called for each line, pings too.
	alive func()
}

func newEventReader(r io.Reader, alive func()) *eventReader {
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, maxEvent)
	return &eventReader{lines: lines, alive: alive}
}

// next reads one event. What the stream ends in the middle of is not an event.
func (r *eventReader) next() (*event, error) {
	var e event
	begun := false
	for r.lines.Scan() {
		r.alive()
		line := r.lines.Bytes()
		if len(line) == 0 {
			if begun {
				return &e, nil
			}
			continue
		}
		field, value, _ := bytes.Cut(line, []byte(":"))
		value = bytes.TrimPrefix(value, []byte(" "))
		switch string(field) {
		case "event":
			e.name, begun = string(value), true
		case "id":
			id, err := strconv.ParseInt(string(value), 10, 64)
			if err != nil {
				return nil, fmt.Errorf("an event has the id %.40q, which is no number", value)
			}
			e.id, begun = id, true
		case "data":
			if len(e.data) > 0 {
				e.data = append(e.data, '\n')
			}
			if e.data = append(e.data, value...); len(e.data) > maxEvent {
				return nil, errEventSize
			}
			begun = true
		}
	}
	switch err := r.lines.Err(); {
	case errors.Is(err, bufio.ErrTooLong):
		return nil, errEventSize
	case err != nil:
		return nil, err
	case begun:
		return nil, io.ErrUnexpectedEOF
	}
	return nil, errStreamEnd
}
