package oscarsim

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/oscarfed/oscarfed/internal/oscarsim/wire"
)

// maxBody is the largest request body, in bytes. The real OSCAR has no limit of its own.
const maxBody = 8 << 20

// call is one request on its way through OSCAR. The answer is kept until the end, so that a fault can replace it.
// As in the real one the first text sets the status, later texts are appended, and a bare status counts only when
// nothing was written: a 500 followed by "no content" stays a 500.
type call struct {
	life    *life
	op      Op
	service string
	params  []string
	header  http.Header
	query   func(string) string
	body    []byte
	user    *User     // nil for the administrator
	came    time.Time // when the request was here

	latency time.Duration // of each MinIO restart
	crash   bool          // the process dies in the middle of this request
	// crashSecret says that it leaves a Secret without a service.
	crashSecret bool
	stall       <-chan struct{} // what a delete waits for when the service is gone; nil for nothing
	partial     bool            // a list leaves out what comes last

	status    int
	committed bool
	kind      string
	answer    []byte
	challenge bool // 401 with WWW-Authenticate
	location  string
	dropped   bool // no answer: the connection is closed
}

// code sets a status without a body.
func (c *call) code(status int) {
	if !c.committed {
		c.status = status
	}
}

// text answers with plain text, or adds to it.
func (c *call) text(status int, body string) {
	c.commit(status, "text/plain; charset=utf-8")
	c.answer = append(c.answer, body...)
}

// json answers with compact JSON without a line feed at the end.
func (c *call) json(status int, v any) {
	body, err := json.Marshal(v)
	if err != nil {
		c.text(http.StatusInternalServerError, err.Error())
		return
	}
	c.commit(status, "application/json; charset=utf-8")
	c.answer = append(c.answer, body...)
}

func (c *call) commit(status int, kind string) {
	if !c.committed {
		c.status, c.kind, c.committed = status, kind, true
	}
}

// drop closes the connection without an answer, as a process that died does.
func (c *call) drop() { c.dropped = true }

// deny answers as gin's Basic authentication.
func (c *call) deny() {
	c.status, c.committed, c.answer, c.challenge = http.StatusUnauthorized, true, nil, true
}

// pause waits one MinIO restart and reports whether the process still lives. A client that goes away changes nothing:
// OSCAR goes on.
func (c *call) pause(d time.Duration) bool {
	if d > 0 {
		timer := time.NewTimer(d)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-c.life.ctx.Done():
		}
	}
	if c.life.ctx.Err() != nil {
		c.drop()
		return false
	}
	return true
}

// send writes the answer out.
func (c *call) send(w http.ResponseWriter) {
	if c.dropped {
		hangUp(w)
		return
	}
	if c.challenge {
		w.Header().Set("WWW-Authenticate", `Basic realm="Authorization Required"`)
	}
	if c.location != "" {
		w.Header().Set("Location", c.location)
	}
	if c.kind != "" {
		w.Header().Set("Content-Type", c.kind)
	}
	w.WriteHeader(c.status)
	_, _ = w.Write(c.answer)
}

// hangUp closes the connection without an answer.
func hangUp(w http.ResponseWriter) {
	conn, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		// HTTP/2 and recorders: net/http's own way to break off.
		panic(http.ErrAbortHandler)
	}
	if tcp, ok := conn.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0)
	}
	_ = conn.Close()
}

// serve answers one request.
func (s *Sim) serve(w http.ResponseWriter, r *http.Request) {
	if s.run(w, r) {
		return
	}
	c := &call{life: s.current(), header: r.Header, query: r.URL.Query().Get, latency: s.cfg.Latency, status: http.StatusOK, came: time.Now()}
	rt, params := s.match(r.Method, r.URL.Path)
	if rt == nil {
		s.unknown(c, r)
		c.send(w)
		return
	}
	c.op, c.params = rt.op, params
	if c.read(w, r) {
		c.service = serviceOf(c)
		if seq, ok := s.enter(c); ok {
			s.answer(c, rt, r)
			s.leave(seq, c)
		}
	}
	c.send(w)
}

// read takes the body in and reports whether it could.
func (c *call) read(w http.ResponseWriter, r *http.Request) bool {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	if _, tooLarge := errors.AsType[*http.MaxBytesError](err); tooLarge {
		c.code(http.StatusRequestEntityTooLarge)
		return false
	}
	if err != nil {
		c.drop() // the client broke off
		return false
	}
	c.body = body
	return true
}

// answer authenticates the caller, applies the fault that is set for the request, and handles it.
func (s *Sim) answer(c *call, rt *route, r *http.Request) {
	switch {
	case rt.control:
		if !s.admin(r) {
			c.deny()
			return
		}
	case rt.basic && !s.identify(r.Context(), c, r):
		return
	}
	if !rt.control {
		if f := s.takeFault(c.op); f != nil {
			s.applyFault(r.Context(), c, rt, f)
			return
		}
		s.wait(c, rt)
	}
	if !c.dropped {
		rt.handle(c)
	}
}

func (s *Sim) current() *life {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.life
}

// wait is client-go's throttle in front of a request.
func (s *Sim) wait(c *call, rt *route) {
	if !s.cfg.ThrottleGETs || rt.cost == 0 {
		return
	}
	if s.throttle.WaitN(c.life.ctx, rt.cost) != nil {
		c.drop()
	}
}

func (s *Sim) admin(r *http.Request) bool {
	user, password, ok := r.BasicAuth()
	return ok && user == s.cfg.User && password == s.cfg.Password
}

// serviceOf is the service that a request is about: the first path parameter, or the name in a definition.
func serviceOf(c *call) string {
	switch c.op {
	case OpCreate, OpUpdate:
		var named struct {
			Name string `json:"name"`
		}
		_ = wire.JSON(c.body, &named) // the handler reports what is wrong
		return named.Name
	}
	if len(c.params) > 0 {
		return c.params[0]
	}
	return ""
}

// refused words a connection that another cluster or store refuses, where the simulator does not dial.
func refused(method, url string) error {
	host := url
	if _, rest, ok := strings.Cut(url, "://"); ok {
		host, _, _ = strings.Cut(rest, "/")
	}
	return fmt.Errorf("%s %q: dial tcp %s: connect: connection refused", method, url, host)
}
