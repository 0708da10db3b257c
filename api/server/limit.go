package server

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/oscarfed/oscarfed/api/server/respond"
	"github.com/oscarfed/oscarfed/controlplane/fault"
)

// limitBody bounds the size of every body. The time that one may take is the
// server's ReadTimeout, but for an invocation's.
func (s *Server) limitBody(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Body != nil && r.Body != http.NoBody {
			limit := s.cfg.MaxBody
			if strings.HasPrefix(r.URL.Path, runPrefix) {
				limit = maxRunBody
			}
			r.Body = http.MaxBytesReader(w, r.Body, limit)
		}
		next.ServeHTTP(w, r)
	})
}

// readBody reads the whole body, whatever its Content-Type.
func readBody(r *http.Request) ([]byte, error) {
	body, err := io.ReadAll(r.Body)
	if tooLarge, ok := errors.AsType[*http.MaxBytesError](err); ok {
		return nil, respond.Errorf(fault.CodeTooLarge, "the body is larger than the limit of %d bytes", tooLarge.Limit)
	}
	if err != nil {
		return nil, respond.Errorf(fault.CodeInvalid, "the body ended before it was complete")
	}
	return body, nil
}

// deadline bounds a request by what its use case may take and what its caller
// waits for, and lets the answer be written until a little later. A watch bounds
// itself.
func (s *Server) deadline(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if watching(r) {
			next.ServeHTTP(w, r)
			return
		}
		d := s.cfg.Timeout
		if wait, given, err := waitOf(r); err == nil && given {
			d += wait
		} else if r.Method == http.MethodPost {
			d += s.cfg.DefaultWait
		}
		// Not supported outside a real server, where no client is slow.
		_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(d + writeSlack))
		ctx, cancel := context.WithTimeout(r.Context(), d)
		defer cancel()
		next.ServeHTTP(w, r.WithContext(ctx))
	})
}

// writeSlack is what writing an answer may take after its deadline.
const writeSlack = 10 * time.Second

// stillTimeout is how long a caller may send nothing of a body that is passed on, or take to read a
// piece of a streamed answer. The cluster has something open for him until then.
const stillTimeout = 30 * time.Second

// stillUntil is the deadline of a caller who stands still from now on; end is that of the whole request.
func stillUntil(end time.Time) time.Time {
	if still := time.Now().Add(stillTimeout); still.Before(end) {
		return still
	}
	return end
}

var errRequestEnded = errors.New("the request has ended")

// forwardedBody is the body of a request while it is forwarded. The transport that sends it
// on may still read it, or be about to, when there is an answer already; after the handler
// has returned, the connection behind it carries the next request. So the handler stops the
// reading before it returns.
type forwardedBody struct {
	body    io.Reader
	control *http.ResponseController
	end     time.Time     // until which all of it may come
	reading chan struct{} // of one place, which is taken during a read
	whole   atomic.Bool

	mu      sync.Mutex
	stopped bool
}

func (b *forwardedBody) Read(p []byte) (int, error) {
	b.reading <- struct{}{}
	defer func() { <-b.reading }()
	if !b.begin() {
		return 0, errRequestEnded
	}
	n, err := b.body.Read(p)
	_ = b.control.SetReadDeadline(b.end) // the caller is not waited for between two reads
	if errors.Is(err, io.EOF) {
		b.whole.Store(true)
	}
	return n, err
}

// begin sets the deadline of a read, which that of stop replaces. It is false after stop.
func (b *forwardedBody) begin() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.stopped {
		_ = b.control.SetReadDeadline(stillUntil(b.end)) // not supported outside a real server
	}
	return !b.stopped
}

// stop returns when no read of the body is under way and none can begin. A read that waits
// for bytes is ended by a deadline.
func (b *forwardedBody) stop() {
	b.mu.Lock()
	b.stopped = true
	b.mu.Unlock()
	select {
	case b.reading <- struct{}{}:
	default:
		_ = b.control.SetReadDeadline(time.Now())
		b.reading <- struct{}{}
	}
	<-b.reading
}
