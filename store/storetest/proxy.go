package storetest

import (
	"errors"
	"io"
	"net"
	"net/url"
	"sync"
	"testing"
)

// Proxy stands between clients and a server, and does what networks do.
type Proxy struct {
	t        testing.TB
	listener net.Listener
	scheme   string
	work     sync.WaitGroup

	mu     sync.Mutex
	target string
	links  map[*link]struct{}
	frozen bool // new links
	closed bool
}

// link is one connection through the proxy.
type link struct {
	near, far net.Conn
	// open is closed while bytes may pass, under the proxy's mu.
	open chan struct{}
	gone chan struct{}
	once sync.Once
}

// NewProxy listens on a free port and passes connections on to an endpoint, a
// URL. The end of the test closes it.
func NewProxy(t testing.TB, endpoint string) *Proxy {
	t.Helper()
	u, err := url.Parse(endpoint)
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &Proxy{t: t, listener: l, scheme: u.Scheme, target: u.Host, links: make(map[*link]struct{})}
	p.work.Go(p.accept)
	t.Cleanup(p.close)
	return p
}

// Endpoint is the URL that clients connect to.
func (p *Proxy) Endpoint() string {
	return (&url.URL{Scheme: p.scheme, Host: p.listener.Addr().String()}).String()
}

// Freeze lets no byte pass any more, on open and on new connections, and says
// nothing: a network partition.
func (p *Proxy) Freeze() {
	p.freezeOpen(true)
}

// FreezeOpen does it to the open connections alone: they are half-open, as after
// the crash of a router, and new ones work.
func (p *Proxy) FreezeOpen() {
	p.freezeOpen(false)
}

func (p *Proxy) freezeOpen(andNew bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.frozen = andNew
	for l := range p.links {
		select {
		case <-l.open:
			l.open = make(chan struct{})
		default:
		}
	}
}

// Thaw lets everything pass again, with the bytes that were held.
func (p *Proxy) Thaw() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.frozen = false
	for l := range p.links {
		select {
		case <-l.open:
		default:
			close(l.open)
		}
	}
}

// Cut closes all open connections.
func (p *Proxy) Cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for l := range p.links {
		l.cut()
	}
}

// Retarget passes new connections on to another endpoint, and cuts the open ones.
func (p *Proxy) Retarget(endpoint string) {
	p.t.Helper()
	u, err := url.Parse(endpoint)
	if err != nil {
		p.t.Fatal(err)
	}
	p.mu.Lock()
	p.target = u.Host
	p.mu.Unlock()
	p.Cut()
}

func (p *Proxy) close() {
	p.mu.Lock()
	p.closed = true
	p.mu.Unlock()
	if err := p.listener.Close(); err != nil {
		p.t.Errorf("close the proxy: %v", err)
	}
	p.Cut()
	p.work.Wait()
}

func (p *Proxy) accept() {
	for {
		near, err := p.listener.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			continue
		}
		p.work.Go(func() { p.serve(near) })
	}
}

func (p *Proxy) serve(near net.Conn) {
	p.mu.Lock()
	target := p.target
	p.mu.Unlock()
	far, err := net.Dial("tcp", target)
	if err != nil {
		_ = near.Close()
		return
	}
	l := &link{near: near, far: far, open: make(chan struct{}), gone: make(chan struct{})}
	p.mu.Lock()
	p.links[l] = struct{}{}
	if !p.frozen {
		close(l.open)
	}
	if p.closed {
		l.cut()
	}
	p.mu.Unlock()

	var copies sync.WaitGroup
	copies.Go(func() { p.copy(l, far, near) })
	copies.Go(func() { p.copy(l, near, far) })
	copies.Wait()

	p.mu.Lock()
	delete(p.links, l)
	p.mu.Unlock()
}

func (l *link) cut() {
	l.once.Do(func() {
		close(l.gone)
		_ = l.near.Close()
		_ = l.far.Close()
	})
}

func (p *Proxy) copy(l *link, to io.Writer, from io.Reader) {
	defer l.cut()
	buf := make([]byte, 32<<10)
	for {
		n, err := from.Read(buf)
		// A frozen link does not even tell of its end.
		if !p.pass(l) || err != nil {
			return
		}
		if _, err := to.Write(buf[:n]); err != nil {
			return
		}
	}
}

// pass waits while the link is frozen; false when it is gone.
func (p *Proxy) pass(l *link) bool {
	for {
		p.mu.Lock()
		open := l.open
		p.mu.Unlock()
		select {
		case <-l.gone:
			return false
		case <-open:
		}
		p.mu.Lock()
		same := open == l.open
		p.mu.Unlock()
		if same {
			return true
		}
	}
}
