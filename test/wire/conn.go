package wire

import (
	"io"
	"net"
	"os"
	"sync"
	"syscall"
	"time"
)

// connection is two streams between two processes.
type connection struct {
	net *Network
	// ordinal counts the connections that one host dialled to the other, from 1.
	ordinal int
	// index is its place among the network's connections, under the network's lock.
	index int

	mu sync.Mutex
	// ends[0] dialled. streams[i] carries what ends[i] writes.
	ends    [2]end
	streams [2]stream
}

// end implements net.Conn. Its state is under the connection's lock.
type end struct {
	conn          *connection
	side          int
	host          *Host
	local, remote net.Addr

	// gone is why the end is of no more use to its process.
	gone   error
	frozen bool
	// closing says that the end was closed while it was frozen: the other side learns it later.
	closing bool
	// writing says that a write is under way. Another one waits for it.
	writing               bool
	readUntil, writeUntil deadline
}

func (e *end) in() *stream  { return &e.conn.streams[1-e.side] }
func (e *end) out() *stream { return &e.conn.streams[e.side] }

// Read implements net.Conn.
func (e *end) Read(p []byte) (int, error) {
	e.conn.mu.Lock()
	defer e.conn.mu.Unlock()
	in := e.in()
	err := e.wait(&in.readable, &e.readUntil, func() bool { return !e.frozen && (in.available() > 0 || in.ended != nil || len(p) == 0) })
	switch {
	case err != nil:
		return 0, e.fail("read", err)
	case in.available() > 0 || len(p) == 0:
		return in.read(p), nil
	case in.ended == io.EOF:
		return 0, io.EOF
	}
	return 0, e.fail("read", os.NewSyscallError("read", in.ended))
}

// Write implements net.Conn.
func (e *end) Write(p []byte) (n int, err error) {
	e.conn.mu.Lock()
	defer e.conn.mu.Unlock()
	out := e.out()
	if err := e.wait(&out.writable, &e.writeUntil, func() bool { return !e.writing }); err != nil {
		return 0, e.fail("write", err)
	}
	e.writing = true
	defer func() {
		e.writing = false
		out.writable.Broadcast()
	}()
	for drawn := false; ; drawn = true {
		if err := e.wait(&out.writable, &e.writeUntil, func() bool { return e.in().ended != nil || out.room() > 0 }); err != nil {
			return n, e.fail("write", err)
		}
		if ended := e.in().ended; ended != nil {
			if e.frozen { // it learns that at the thaw, as its reads do
				return n + len(p), nil
			}
			return n, e.fail("write", os.NewSyscallError("write", writeError(ended)))
		}
		if len(p) == 0 {
			return n, nil
		}
		if !drawn && e.misfortune(p) {
			return len(p), nil
		}
		sent := p[:min(len(p), out.room())]
		out.send(sent)
		n, p = n+len(sent), p[len(sent):]
		if len(p) == 0 {
			return n, nil
		}
	}
}

// writeError is what a write is told when the other side has closed or reset.
func writeError(ended error) error {
	if ended == io.EOF {
		return syscall.EPIPE
	}
	return ended
}

// misfortune draws what becomes of the connection with a write, and says whether it is broken.
func (e *end) misfortune(p []byte) bool {
	c, out := e.conn, e.out()
	for _, r := range out.rules {
		if r.happens(r.Break, &out.dice) {
			out.send(p[:out.dice.rand().IntN(len(p))])
			c.reset()
			c.trace("broken by " + e.host.String())
			return true
		}
		if r.happens(r.Hang, &out.dice) {
			c.hang()
			c.trace("hangs since a write by " + e.host.String())
		}
	}
	return false
}

// wait waits until ready, and fails when the end is gone or the deadline passes. A
// frozen process does not see its deadline. Its writes are ready while there is room: they are not
// to be waited for under a lock, which would keep virtual time from going on.
func (e *end) wait(on *sync.Cond, until *deadline, ready func() bool) error {
	for {
		switch {
		case e.gone != nil:
			return e.gone
		case !e.frozen && until.passed():
			return os.ErrDeadlineExceeded
		case ready():
			return nil
		case !e.frozen:
			until.wake(on)
		}
		on.Wait()
	}
}

func (e *end) fail(op string, err error) error {
	return &net.OpError{Op: op, Net: tcp, Source: e.local, Addr: e.remote, Err: err}
}

// Close implements net.Conn.
func (e *end) Close() error {
	e.conn.mu.Lock()
	err := e.gone
	if err == nil {
		e.leave(net.ErrClosed)
		if e.frozen {
			e.closing = true
		} else {
			e.out().finish(io.EOF)
		}
	}
	e.conn.mu.Unlock()
	if err != nil {
		return e.fail("close", err)
	}
	e.conn.net.mu.Lock()
	defer e.conn.net.mu.Unlock()
	e.conn.net.forget(e.conn)
	return nil
}

// leave ends the process's use of its end. What is on its way to it is lost.
func (e *end) leave(why error) {
	e.gone = why
	e.readUntil.stop()
	e.writeUntil.stop()
	e.in().discard()
	e.in().readable.Broadcast()
	e.out().writable.Broadcast()
}

// kill ends the end as the death of its process does.
func (e *end) kill() {
	if e.gone != nil && !e.closing {
		return
	}
	e.closing = false
	e.leave(errKilled)
	out := e.out()
	out.truncate(out.dice.some(out.unread() - out.withheld()))
	out.freeze(false)
	out.finish(syscall.ECONNRESET)
	e.conn.trace("reset by the end of " + e.host.String())
}

func (e *end) setFrozen(frozen bool) {
	e.frozen = frozen
	e.out().freeze(frozen)
	if frozen {
		return
	}
	if e.closing {
		e.closing = false
		e.out().finish(io.EOF)
	}
	e.in().readable.Broadcast()
	e.out().writable.Broadcast()
}

// reset ends both directions after what is on its way.
func (c *connection) reset() {
	for i := range c.streams {
		c.streams[i].finish(syscall.ECONNRESET)
	}
}

// hang lets nothing arrive any more.
func (c *connection) hang() {
	for i := range c.streams {
		c.streams[i].hung = true
		c.streams[i].follow(c.streams[i].rules)
	}
}

func (c *connection) trace(what string) {
	c.net.trace.add(c.ends[0].host.String(), c.ends[1].host.String(), c.ordinal, what)
}

// LocalAddr implements net.Conn.
func (e *end) LocalAddr() net.Addr { return e.local }

// RemoteAddr implements net.Conn.
func (e *end) RemoteAddr() net.Addr { return e.remote }

// SetDeadline implements net.Conn.
func (e *end) SetDeadline(t time.Time) error { return e.setDeadlines(t, &e.readUntil, &e.writeUntil) }

// SetReadDeadline implements net.Conn.
func (e *end) SetReadDeadline(t time.Time) error { return e.setDeadlines(t, &e.readUntil) }

// SetWriteDeadline implements net.Conn.
func (e *end) SetWriteDeadline(t time.Time) error { return e.setDeadlines(t, &e.writeUntil) }

func (e *end) setDeadlines(t time.Time, which ...*deadline) error {
	e.conn.mu.Lock()
	defer e.conn.mu.Unlock()
	if e.gone != nil {
		return e.fail("set", e.gone)
	}
	for _, d := range which {
		d.at = t
	}
	e.in().readable.Broadcast()
	e.out().writable.Broadcast()
	return nil
}

// deadline of reads or writes. It has a timer only while something waits.
type deadline struct {
	at, armed time.Time
	timer     *time.Timer
}

func (d *deadline) passed() bool { return !d.at.IsZero() && !time.Now().Before(d.at) }

// wake has those that wait woken at the deadline.
func (d *deadline) wake(waiting *sync.Cond) {
	if d.at.IsZero() || d.armed.Equal(d.at) {
		return
	}
	d.armed = d.at
	if d.timer != nil {
		d.timer.Reset(time.Until(d.at))
		return
	}
	d.timer = time.AfterFunc(time.Until(d.at), func() {
		waiting.L.Lock()
		defer waiting.L.Unlock()
		waiting.Broadcast()
	})
}

func (d *deadline) stop() {
	if d.timer != nil {
		d.timer.Stop()
	}
}
