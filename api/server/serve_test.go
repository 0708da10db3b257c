package server_test

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/oscarfed/oscarfed/api/server"
	"github.com/oscarfed/oscarfed/controlplane/federations"
	"github.com/oscarfed/oscarfed/controlplane/gate"
	"github.com/oscarfed/oscarfed/controlplane/runs"
	"github.com/oscarfed/oscarfed/internal/handshake"
	"github.com/oscarfed/oscarfed/test/wire"
)

// serving is a Serve that runs on a network in memory.
type serving struct {
	net    *wire.Network
	url    string
	client *http.Client
	stop   context.CancelFunc
	// done is closed when Serve has returned err.
	done chan struct{}
	err  error
}

func serve(t *testing.T, cfg server.ServeConfig) *serving {
	t.Helper()
	return serveOn(t, wire.ForTest(t), cfg)
}

func serveOn(t *testing.T, network *wire.Network, cfg server.ServeConfig) *serving {
	t.Helper()
	cfg.Listen = network.Host("api").MustListen(t)
	ctx, cancel := context.WithCancel(t.Context())
	trusted := x509.NewCertPool()
	if cfg.TLS != nil {
		own, err := x509.ParseCertificate(cfg.TLS.Certificates[0].Certificate[0])
		if err != nil {
			t.Fatal(err)
		}
		trusted.AddCert(own)
	}
	transport := network.Host("client").Transport(&tls.Config{RootCAs: trusted, ServerName: "example.com", MinVersion: tls.VersionTLS12}) // as httptest's certificate has it
	transport.ForceAttemptHTTP2 = true
	s := &serving{net: network, url: "http://" + cfg.Listen.Addr().String(), client: &http.Client{Transport: transport}, stop: cancel, done: make(chan struct{})}
	if cfg.TLS != nil {
		s.url = strings.Replace(s.url, "http", "https", 1)
	}
	go func() {
		defer close(s.done)
		s.err = server.Serve(ctx, cfg)
	}()
	t.Cleanup(func() {
		transport.CloseIdleConnections()
		if err := s.wait(); err != nil {
			t.Errorf("Serve returned %v", err)
		}
	})
	return s
}

// wait stops serving and says how it ended.
func (s *serving) wait() error {
	s.stop()
	<-s.done
	return s.err
}

// dial opens a connection, and sends nothing.
func (s *serving) dial(t *testing.T) net.Conn {
	t.Helper()
	conn, err := s.net.Host("client").DialContext(t.Context(), "tcp", strings.TrimPrefix(s.url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

func (s *serving) post(ctx context.Context, body io.Reader) (int, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, s.url+"/system/services", body)
	if err != nil {
		return 0, err
	}
	r.SetBasicAuth(user, password)
	resp, err := s.client.Do(r)
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	_, err = io.Copy(io.Discard, resp.Body)
	return resp.StatusCode, err
}

type outcome struct {
	status int
	err    error
}

func (s *serving) start(ctx context.Context, body io.Reader) <-chan outcome {
	out := make(chan outcome, 1)
	go func() {
		status, err := s.post(ctx, body)
		out <- outcome{status, err}
	}()
	return out
}

// blocking is a control plane whose creations wait for release or for the end
// of their context.
func blocking() (f *fake, entered chan struct{}, release chan struct{}, ended chan error) {
	entered, release, ended = make(chan struct{}, 8), make(chan struct{}), make(chan error, 8)
	f = &fake{created: &federations.CreateResult{Done: true}, health: gate.Health{OK: true}}
	f.before = func(ctx context.Context) {
		entered <- struct{}{}
		select {
		case <-release:
			ended <- nil
		case <-ctx.Done():
			ended <- context.Cause(ctx)
		}
	}
	return f, entered, release, ended
}

func TestServeLetsRequestsFinish(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, entered, release, _ := blocking()
		srv := newServer(t, f)
		draining := make(chan struct{})
		s := serve(t, server.ServeConfig{Handler: srv.Handler(), OnDrain: func() { srv.Drain(); close(draining) }})
		answer := s.start(t.Context(), strings.NewReader(service))
		<-entered
		s.stop()
		<-draining
		select {
		case <-s.done:
			t.Fatalf("Serve returned %v while a request was in flight", s.err)
		case got := <-answer:
			t.Fatalf("answered %+v before its time", got)
		default:
		}
		close(release)
		if got := <-answer; got.err != nil || got.status != 201 {
			t.Errorf("got %+v", got)
		}
		<-s.done
		if _, err := s.post(t.Context(), strings.NewReader(service)); err == nil {
			t.Error("a request was answered after the end")
		}
	})
}

// What waits for an outcome longer than the drain is cut off; its use case learns
// why.
func TestServeCutsOffAfterTheDrain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, entered, _, ended := blocking()
		s := serve(t, server.ServeConfig{Handler: newServer(t, f).Handler(), Drain: time.Minute})
		answer := s.start(t.Context(), strings.NewReader(service))
		<-entered
		s.stop()
		if err := <-ended; err == nil || err.Error() != "the control plane is stopping" {
			t.Errorf("the use case ended with %v", err)
		}
		<-answer
	})
}

func TestServeTLS(t *testing.T) {
	donor := httptest.NewTLSServer(nil) // for its certificate
	defer donor.Close()
	synctest.Test(t, func(t *testing.T) {
		s := serve(t, server.ServeConfig{
			Handler: newServer(t, &fake{health: gate.Health{OK: true}}).Handler(),
			TLS:     &tls.Config{Certificates: donor.TLS.Certificates, MinVersion: tls.VersionTLS12},
		})
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.url+"/health", nil)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := s.client.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		if got := bodyOf(t, resp); got != "Ok" || resp.ProtoMajor != 2 {
			t.Errorf("got %q over %s", got, resp.Proto)
		}
	})
}

func TestServeTellsOfABrokenListener(t *testing.T) {
	broken := errors.New("no more file descriptors")
	err := server.Serve(t.Context(), server.ServeConfig{Listen: brokenListener{broken}, Handler: http.NotFoundHandler()})
	if !errors.Is(err, broken) {
		t.Errorf("got %v", err)
	}
}

type brokenListener struct{ err error }

func (l brokenListener) Accept() (net.Conn, error) { return nil, l.err }
func (l brokenListener) Close() error              { return nil }
func (l brokenListener) Addr() net.Addr            { return &net.TCPAddr{} }

// A creation waits longer than a request may take to come in: the second caller's
// slow body is given up after that time, which began later than the first one's.
func TestWaitIsLongerThanTheReadTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, entered, release, ended := blocking()
		s := serve(t, server.ServeConfig{Handler: newServer(t, f).Handler()})
		first := s.start(t.Context(), strings.NewReader(service))
		<-entered

		slow, feed := io.Pipe()
		var sending sync.WaitGroup
		sending.Go(func() { _, _ = feed.Write([]byte(`{"name":`)) }) // and then nothing
		second := <-s.start(t.Context(), slow)
		_ = slow.Close()
		sending.Wait()
		if second.err == nil && second.status != 400 {
			t.Errorf("a body that never ends: %+v", second)
		}

		close(release)
		if err := <-ended; err != nil {
			t.Errorf("the first creation was cancelled: %v", err)
		}
		if got := <-first; got.err != nil || got.status != 201 {
			t.Errorf("the first creation: %+v", got)
		}
	})
}

// A caller that goes away ends the use case.
func TestCallerGoesAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, entered, _, ended := blocking()
		s := serve(t, server.ServeConfig{Handler: newServer(t, f).Handler()})
		ctx, cancel := context.WithCancel(t.Context())
		answer := s.start(ctx, strings.NewReader(service))
		<-entered
		cancel()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Errorf("ended with %v", err)
		}
		<-answer
	})
}

func TestHeadersAreLimited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := serve(t, server.ServeConfig{Handler: newServer(t, &fake{}).Handler()})
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.url+"/health", nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("X-Large", strings.Repeat("x", 128<<10))
		resp, err := s.client.Do(r)
		if err != nil {
			return // the connection was closed on us
		}
		defer resp.Body.Close()
		if resp.StatusCode != http.StatusRequestHeaderFieldsTooLarge {
			t.Errorf("answered %d", resp.StatusCode)
		}
	})
}

// A request that is refused before its body was read does not hold its connection, whatever
// its deadline is: the body may never come.
func TestARefusedRequestHoldsNoConnection(t *testing.T) {
	for name, c := range map[string]struct{ head, status string }{
		"an invocation":            {"POST /run/a HTTP/1.1\r\nContent-Length: 100000\r\n", "401"},
		"an invocation in chunks":  {"POST /run/a HTTP/1.1\r\nTransfer-Encoding: chunked\r\n", "401"},
		"an invocation of a token": {"POST /run/a HTTP/1.1\r\nContent-Length: 100000\r\nAuthorization: Bearer " + strings.Repeat("0", 64) + "\r\n", "401"},
		"a request to a cluster":   {"PUT /system/quotas/user/a HTTP/1.1\r\nContent-Length: 1000\r\n", "401"},
		"a creation":               {"POST /system/services HTTP/1.1\r\nContent-Length: 1000\r\n", "401"},
		"a foreign page":           {"POST /system/services HTTP/1.1\r\nContent-Length: 1000\r\nSec-Fetch-Site: cross-site\r\nOrigin: https://example.org\r\n", "403"},
		"an unknown path":          {"POST /nowhere HTTP/1.1\r\nContent-Length: 1000\r\n", "404"},
		"one without credentials":  {"GET /health HTTP/1.1\r\nContent-Length: 1000\r\n", "200"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := serve(t, server.ServeConfig{Handler: newServer(t, &fake{health: gate.Health{OK: true}}).Handler(), ReadTimeout: time.Hour})
				conn := s.dial(t)
				if _, err := io.WriteString(conn, c.head+"Host: x\r\n\r\n"); err != nil {
					t.Fatal(err)
				}
				if err := conn.SetReadDeadline(time.Now().Add(time.Minute)); err != nil {
					t.Fatal(err)
				}
				answer, err := io.ReadAll(conn)
				if err != nil {
					t.Errorf("the connection stands: %v", err)
				}
				if !strings.HasPrefix(string(answer), "HTTP/1.1 "+c.status) || !strings.Contains(string(answer), "\r\nConnection: close\r\n") {
					t.Errorf("answered %q", answer)
				}
			})
		})
	}
}

// What is left of a body that comes is not in the way of the next request.
func TestARefusedRequestKeepsAConnectionWhoseBodyComes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := serve(t, server.ServeConfig{Handler: newServer(t, &fake{}).Handler()})
		conn := s.dial(t)
		answers := bufio.NewReader(conn)
		for range 3 {
			if _, err := io.WriteString(conn, "POST /run/a HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\n0123456789"); err != nil {
				t.Fatal(err)
			}
			resp, err := http.ReadResponse(answers, nil)
			if err != nil {
				t.Fatal(err)
			}
			if _ = bodyOf(t, resp); resp.StatusCode != 401 || resp.Close {
				t.Errorf("answered %d %v", resp.StatusCode, resp.Header)
			}
			<-time.After(time.Minute) // it stands idle
		}
	})
}

// The body of an invocation may take longer than that of other requests.
func TestTheBodyOfAnInvocationOutlivesTheReadTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fake{run: func(req runs.Request) (*runs.Answer, error) {
			body, err := io.ReadAll(req.Body)
			if err != nil {
				return nil, err
			}
			return answering(200, nil, bytes.NewReader(body), int64(len(body)))(req)
		}}
		s := serve(t, server.ServeConfig{Handler: newServer(t, f).Handler()})
		slow, feed := io.Pipe()
		go func() {
			for _, piece := range []string{"first", ", next", ", last"} {
				_, _ = io.WriteString(feed, piece)
				<-time.After(20 * time.Second)
			}
			_ = feed.Close()
		}()
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.url+"/run/a", slow)
		if err != nil {
			t.Fatal(err)
		}
		r.SetBasicAuth(user, password)
		resp, err := s.client.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		if got := bodyOf(t, resp); resp.StatusCode != 200 || got != "first, next, last" {
			t.Errorf("answered %d %q", resp.StatusCode, got)
		}
	})
}

func TestExposed(t *testing.T) {
	for address, exposed := range map[string]bool{
		"127.0.0.1": false, "127.8.8.8": false, "::1": false, "0.0.0.0": true, "::": true, "192.0.2.1": true, "": true,
	} {
		if got := server.Exposed(&net.TCPAddr{IP: net.ParseIP(address)}); got != exposed {
			t.Errorf("%q: %v", address, got)
		}
	}
	if server.Exposed(&net.UnixAddr{Name: "/run/x"}) {
		t.Error("a socket file is exposed")
	}
}

// Connections that send no request are bounded, and so is their time.
func TestConnectionsWithoutARequestAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ended := func(conn net.Conn) {
			if err := conn.SetReadDeadline(time.Now().Add(10 * time.Minute)); err != nil {
				t.Fatal(err)
			}
			if _, err := io.Copy(io.Discard, conn); err != nil && errors.Is(err, os.ErrDeadlineExceeded) {
				t.Error("the connection stands")
			}
		}
		full := serve(t, server.ServeConfig{Handler: http.NotFoundHandler(), Handshakes: handshake.Limits{Total: 1, Timeout: time.Hour}})
		full.dial(t)
		ended(full.dial(t))
		ended(serve(t, server.ServeConfig{Handler: http.NotFoundHandler()}).dial(t))
	})
}
