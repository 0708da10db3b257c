package server_test

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/oscarfed/oscarfed/controlplane/gate"
	"github.com/oscarfed/oscarfed/controlplane/view"
	"github.com/oscarfed/oscarfed/store/record"
)

// viewAt is the example as seen at a revision of the store.
func viewAt(revision int64, phase record.Phase) *view.Replicas {
	v := changed().Replicas
	v.StreamRevision, v.Phase = revision, phase
	return &v
}

// eventOf is how a view goes over the wire.
func eventOf(t testing.TB, revision int64, phase string) string {
	t.Helper()
	return fmt.Sprintf("event: replicas\nid: %d\ndata: %s\n\n", revision, strings.Replace(literal(t, "replicas.json"), `"degraded"`, `"`+phase+`"`, 1))
}

// source is a federation that a test changes: what is sent to it is what a watch
// tells, and an error ends the watch.
type source struct {
	views chan any
	since chan int64
	// over has what the context of each watch ended with.
	over chan error
}

func newSource() *source {
	return &source{views: make(chan any), since: make(chan int64, 100), over: make(chan error, 100)}
}

func (s *source) watch(ctx context.Context, since int64, fn func(*view.Replicas) error) error {
	s.since <- since
	for {
		select {
		case v := <-s.views:
			if err, ok := v.(error); ok {
				return err
			}
			if err := fn(v.(*view.Replicas)); err != nil {
				s.over <- err
				return err
			}
		case <-ctx.Done():
			s.over <- context.Cause(ctx)
			return context.Cause(ctx)
		}
	}
}

func (s *source) fake() *fake {
	return &fake{watch: s.watch, replicas: func() *view.Replicas { return viewAt(0, "ready") }, health: gate.Health{OK: true}}
}

// reading is a client in a bubble: it has what was written to it. It may stop
// reading, and then a write ends at its deadline.
type reading struct {
	t      *testing.T
	header http.Header
	status int
	gone   context.CancelFunc
	done   chan struct{}

	mu       sync.Mutex
	body     bytes.Buffer
	flushed  int
	deadline time.Time
	stuck    bool
	takes    time.Duration
}

// slow makes each write take some time.
func (c *reading) slow(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.takes = d
}

func watchIn(t *testing.T, handler http.Handler, path string, headers ...string) *reading {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	r := httptest.NewRequestWithContext(ctx, "GET", path, nil)
	r.SetBasicAuth(user, password)
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	c := &reading{t: t, header: http.Header{}, status: 200, gone: cancel, done: make(chan struct{})}
	go func() {
		defer close(c.done)
		defer cancel()
		handler.ServeHTTP(c, r)
	}()
	synctest.Wait()
	return c
}

func (c *reading) Header() http.Header    { return c.header }
func (c *reading) WriteHeader(status int) { c.status = status }

func (c *reading) Write(p []byte) (int, error) {
	c.mu.Lock()
	stuck, deadline, takes := c.stuck, c.deadline, c.takes
	c.mu.Unlock()
	<-time.After(takes)
	if stuck {
		if deadline.IsZero() {
			c.t.Error("a write without a deadline")
		}
		<-time.After(time.Until(deadline))
		return 0, os.ErrDeadlineExceeded
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.body.Write(p)
}

func (c *reading) FlushError() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.flushed = c.body.Len()
	return nil
}

func (c *reading) SetWriteDeadline(d time.Time) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.deadline = d
	return nil
}

// got is what has reached the client since it was asked last.
func (c *reading) got() string {
	synctest.Wait()
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.deadline.IsZero() && !c.stuck && c.status == 200 {
		c.t.Errorf("a deadline stands while nothing is written")
	}
	out := string(c.body.Next(c.flushed))
	c.flushed = 0
	return out
}

func (c *reading) ended() bool {
	synctest.Wait()
	select {
	case <-c.done:
		return true
	default:
		return false
	}
}

func (c *reading) want(body string) {
	c.t.Helper()
	if got := c.got(); got != body {
		c.t.Errorf("got\n%s\nwant\n%s", got, body)
	}
}
