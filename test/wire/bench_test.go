package wire_test

import (
	"io"
	"net"
	"net/http"
	"testing"
	"time"

	"github.com/oscarfed/oscarfed/test/wire"
)

// BenchmarkConn compares connections: a byte there and back, a stream of bytes, and
// requests over HTTP/1.1.
func BenchmarkConn(b *testing.B) {
	n, slow := wire.New(1), wire.New(1)
	slow.AddRule("*", "*", wire.Rule{Delay: time.Microsecond})
	loopback := func() net.Listener {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			b.Fatal(err)
		}
		return l
	}
	for _, kind := range []struct {
		name string
		pair func() (net.Conn, net.Conn)
	}{
		{"wire", func() (net.Conn, net.Conn) { return pair(b, n.Host("client"), n.Host("server")) }},
		{"delayed", func() (net.Conn, net.Conn) { return pair(b, slow.Host("client"), slow.Host("server")) }},
		{"pipe", func() (net.Conn, net.Conn) { return net.Pipe() }},
		{"loopback", func() (net.Conn, net.Conn) {
			l := loopback()
			defer l.Close()
			near, err := net.Dial("tcp", l.Addr().String())
			if err != nil {
				b.Fatal(err)
			}
			return near, accept(b, l)
		}},
	} {
		b.Run("echo/"+kind.name, func(b *testing.B) {
			near, far := kind.pair()
			defer func() { _ = near.Close() }()
			go func() { _, _ = io.Copy(struct{ io.Writer }{far}, struct{ io.Reader }{far}) }()
			p := make([]byte, 64)
			b.ReportAllocs()
			for b.Loop() {
				if _, err := near.Write(p); err != nil {
					b.Fatal(err)
				}
				if _, err := io.ReadFull(near, p); err != nil {
					b.Fatal(err)
				}
			}
		})
		b.Run("stream/"+kind.name, func(b *testing.B) {
			near, far := kind.pair()
			defer func() { _ = near.Close() }()
			go func() {
				_, _ = io.CopyBuffer(struct{ io.Writer }{io.Discard}, struct{ io.Reader }{far}, make([]byte, 64<<10))
			}()
			p := make([]byte, 16<<10)
			b.SetBytes(int64(len(p)))
			b.ReportAllocs()
			for b.Loop() {
				if _, err := near.Write(p); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
	b.Run("dial/wire", func(b *testing.B) {
		l := listen(b, n.Host("server"))
		dialBenchmark(b, l, func() (net.Conn, error) { return n.Host("client").DialContext(b.Context(), "tcp", l.Addr().String()) })
	})
	b.Run("dial/loopback", func(b *testing.B) {
		l := loopback()
		dialBenchmark(b, l, func() (net.Conn, error) { return net.Dial("tcp", l.Addr().String()) })
	})
	b.Run("http/wire", func(b *testing.B) {
		httpBenchmark(b, listen(b, n.Host("server")), n.Host("client").Transport(nil))
	})
	b.Run("http/loopback", func(b *testing.B) { httpBenchmark(b, loopback(), &http.Transport{}) })
}

func dialBenchmark(b *testing.B, l net.Listener, dial func() (net.Conn, error)) {
	b.Helper()
	defer l.Close()
	b.ReportAllocs()
	for b.Loop() {
		near, err := dial()
		if err != nil {
			b.Fatal(err)
		}
		far := accept(b, l)
		_, _ = near.Close(), far.Close()
	}
}

func httpBenchmark(b *testing.B, l net.Listener, transport *http.Transport) {
	b.Helper()
	server := &http.Server{Handler: http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})}
	go func() { _ = server.Serve(l) }()
	defer func() { _ = server.Close() }()
	client := &http.Client{Transport: transport}
	b.ReportAllocs()
	for b.Loop() {
		resp, err := client.Get("http://" + l.Addr().String())
		if err != nil {
			b.Fatal(err)
		}
		resp.Body.Close()
	}
}
