package wire_test

import (
	"errors"
	"io"
	"net"
	"os"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/net/nettest"

	"github.com/oscarfed/oscarfed/test/wire"
)

// pair opens a connection from a client to a server.
func pair(t testing.TB, client, server *wire.Host) (near, far net.Conn) {
	t.Helper()
	l := listen(t, server)
	near = dial(t, client, l)
	return near, accept(t, l)
}

func listen(t testing.TB, h *wire.Host) net.Listener {
	t.Helper()
	l, err := h.Listen(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func dial(t testing.TB, h *wire.Host, to net.Listener) net.Conn {
	t.Helper()
	c, err := h.DialContext(t.Context(), "tcp", to.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func accept(t testing.TB, l net.Listener) net.Conn {
	t.Helper()
	c, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func write(t testing.TB, c net.Conn, text string) {
	t.Helper()
	if _, err := io.WriteString(c, text); err != nil {
		t.Fatal(err)
	}
}

// reads wants what is read next from a connection, and then an error; nil if more may come.
func reads(t testing.TB, c net.Conn, want string, end error) {
	t.Helper()
	got := make([]byte, len(want))
	if _, err := io.ReadFull(c, got); err != nil || string(got) != want {
		t.Fatalf("read %q %v, want %q", got, err, want)
	}
	if end == nil {
		return
	}
	if n, err := c.Read(make([]byte, 1)); n != 0 || !errors.Is(err, end) {
		t.Fatalf("then read %d %v, want %v", n, err, end)
	}
}

// silent wants nothing to be read for some time.
func silent(t testing.TB, c net.Conn, d time.Duration) {
	t.Helper()
	if err := c.SetReadDeadline(time.Now().Add(d)); err != nil {
		t.Fatal(err)
	}
	if n, err := c.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatalf("read %d %v, want silence", n, err)
	}
	if err := c.SetReadDeadline(time.Time{}); err != nil {
		t.Fatal(err)
	}
}

// in runs a test on virtual time.
func in(t *testing.T, seed uint64, test func(t *testing.T, n *wire.Network)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		n := wire.New(seed)
		defer func() { _ = n.Close() }()
		test(t, n)
	})
}

func TestConn(t *testing.T) {
	t.Parallel()
	for name, rule := range map[string]wire.Rule{
		"at once": {},
		"delayed": {Delay: time.Microsecond, Jitter: time.Microsecond},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			nettest.TestConn(t, func() (near, far net.Conn, stop func(), err error) {
				n := wire.New(1)
				n.AddRule("*", "*", rule)
				near, far = pair(t, n.Host("client"), n.Host("server"))
				return near, far, func() { _ = n.Close() }, nil
			})
		})
	}
}

func TestCloseIsReadAfterTheBytes(t *testing.T) {
	t.Parallel()
	in(t, 1, func(t *testing.T, n *wire.Network) {
		n.AddRule("client", "server", wire.Rule{Delay: time.Second})
		near, far := pair(t, n.Host("client"), n.Host("server"))
		write(t, near, "last words")
		if err := near.Close(); err != nil {
			t.Fatal(err)
		}
		reads(t, far, "last words", io.EOF)
		if _, err := far.Write([]byte("x")); !errors.Is(err, syscall.EPIPE) {
			t.Errorf("a write to a closed connection: %v", err)
		}
		if err := near.Close(); !errors.Is(err, net.ErrClosed) {
			t.Errorf("closed twice: %v", err)
		}
	})
}

func TestWriterWaitsForReader(t *testing.T) {
	t.Parallel()
	in(t, 1, func(t *testing.T, n *wire.Network) {
		near, far := pair(t, n.Host("client"), n.Host("server"))
		text := strings.Repeat("x", 1<<20)
		done := make(chan struct{})
		go func() {
			defer close(done)
			write(t, near, text)
		}()
		synctest.Wait()
		select {
		case <-done:
			t.Fatal("a megabyte was written that nobody reads")
		default:
		}
		reads(t, far, text, nil)
		<-done
	})
}

func TestDelayKeepsOrderAndOverlaps(t *testing.T) {
	t.Parallel()
	in(t, 1, func(t *testing.T, n *wire.Network) {
		n.AddRule("client", "server", wire.Rule{Delay: time.Second, Jitter: 500 * time.Millisecond})
		began := time.Now()
		near, far := pair(t, n.Host("client"), n.Host("server"))
		if took := time.Since(began); took < time.Second || took > 1500*time.Millisecond {
			t.Errorf("a dial took %v", took)
		}
		began = time.Now()
		for range 100 {
			write(t, near, "0123456789")
		}
		reads(t, far, strings.Repeat("0123456789", 100), nil)
		if took := time.Since(began); took < time.Second || took > 1500*time.Millisecond {
			t.Errorf("a hundred writes arrived after %v", took)
		}
		began = time.Now()
		write(t, far, "back")
		reads(t, near, "back", nil)
		if took := time.Since(began); took != 0 {
			t.Errorf("the other direction took %v", took)
		}
	})
}

func TestListenerIsRefusedWhileItIsClosed(t *testing.T) {
	t.Parallel()
	in(t, 1, func(t *testing.T, n *wire.Network) {
		server, client := n.Host("server"), n.Host("client")
		l := listen(t, server)
		waiting := dial(t, client, l)
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
		reads(t, waiting, "", syscall.ECONNRESET)
		if _, err := l.Accept(); !errors.Is(err, net.ErrClosed) {
			t.Errorf("accept: %v", err)
		}
		if _, err := client.DialContext(t.Context(), "tcp", l.Addr().String()); !errors.Is(err, syscall.ECONNREFUSED) {
			t.Errorf("dial: %v", err)
		}
		if _, err := client.DialContext(t.Context(), "tcp", "nobody:80"); !errors.Is(err, syscall.ECONNREFUSED) {
			t.Errorf("dial nobody: %v", err)
		}
		again, err := server.ListenAt(t.Context(), l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		if _, err := server.ListenAt(t.Context(), l.Addr().String()); !errors.Is(err, syscall.EADDRINUSE) {
			t.Errorf("listen twice: %v", err)
		}
		near := dial(t, client, again)
		write(t, near, "hello")
		reads(t, accept(t, again), "hello", nil)
	})
}
