package server

import (
	"errors"
	"io"
	"net/http"
	"sync"
	"sync/atomic"
	"time"
)

var errRequestEnded = errors.New("the request has ended")

// forwardedBody is the body of a request while it is forwarded. The transport that sends it
// on may still read it, or be about to, when there is an answer already; after the handler
// has returned, the connection behind it carries the next request. So the handler stops the
// reading before it returns.
type forwardedBody struct {
	body    io.Reader
	control *http.ResponseController
	mu      sync.Mutex // held during a read
	stopped atomic.Bool
	whole   atomic.Bool
}

func (b *forwardedBody) Read(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.stopped.Load() {
		return 0, errRequestEnded
	}
	n, err := b.body.Read(p)
	if errors.Is(err, io.EOF) {
		b.whole.Store(true)
	}
	return n, err
}

// stop returns when no read of the body is under way and none can begin. A read that waits
// for bytes is ended by a deadline.
func (b *forwardedBody) stop() {
	b.stopped.Store(true)
	if !b.mu.TryLock() {
		_ = b.control.SetReadDeadline(time.Now())
		b.mu.Lock()
	}
	b.mu.Unlock()
}
