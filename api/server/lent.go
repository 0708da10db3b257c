package server

import (
	"errors"
	"io"
	"net/http"
	"sync"
	"sync/atomic"
	"time"
)

var errTakenBack = errors.New("the request has ended")

// lent is the body of a request while it is passed on. Who sends it on may still read
// of it, or be about to, when there is an answer already; the connection behind it is
// the next request's then. So it is taken back before the handler returns.
type lent struct {
	body    io.Reader
	control *http.ResponseController
	mu      sync.Mutex // held while somebody reads
	back    atomic.Bool
	whole   atomic.Bool
}

func (l *lent) Read(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.back.Load() {
		return 0, errTakenBack
	}
	n, err := l.body.Read(p)
	if errors.Is(err, io.EOF) {
		l.whole.Store(true)
	}
	return n, err
}

// takeBack returns when nobody reads of the body any more, and nobody can. Who waits
// for bytes that have not come is told that none will.
func (l *lent) takeBack() {
	l.back.Store(true)
	if !l.mu.TryLock() {
		_ = l.control.SetReadDeadline(time.Now())
		l.mu.Lock()
	}
	l.mu.Unlock()
}
