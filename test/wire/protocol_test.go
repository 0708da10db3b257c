package wire_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health"
	"google.golang.org/grpc/health/grpc_health_v1"

	"github.com/oscarfed/oscarfed/test/wire"
)

// served is a server that counts what it has done.
type served struct {
	*httptest.Server
	client *http.Client
	done   atomic.Int64
}

// serve starts a server on the host "server", and a client of it on "client".
func serve(t *testing.T, n *wire.Network, mutate ...func(*http.Server, *http.Transport)) *served {
	t.Helper()
	out := &served{}
	transport := n.Host("client").Transport(nil)
	config := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return
		}
		out.done.Add(1)
		fmt.Fprintf(w, "%s of %s", body, r.RemoteAddr)
	})}
	for _, m := range mutate {
		m(config, transport)
	}
	out.Server = &httptest.Server{Listener: listen(t, n.Host("server")), Config: config}
	out.Start()
	out.client = &http.Client{Transport: transport}
	t.Cleanup(func() {
		transport.CloseIdleConnections()
		out.CloseClientConnections()
		out.Close()
	})
	return out
}

func (s *served) post(ctx context.Context, body string) error {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, s.URL, strings.NewReader(body))
	if err != nil {
		return err
	}
	resp, err := s.client.Do(r)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	got, err := io.ReadAll(resp.Body)
	if err == nil && !strings.HasPrefix(string(got), body) {
		err = fmt.Errorf("the answer is %q", got)
	}
	return err
}

func (s *served) posts(t *testing.T, body string, done int64) {
	t.Helper()
	if err := s.post(t.Context(), body); err != nil {
		t.Fatal(err)
	}
	if got := s.done.Load(); got != done {
		t.Fatalf("%d requests were done, want %d", got, done)
	}
}

func TestHTTP1(t *testing.T) {
	t.Parallel()
	in(t, 1, func(t *testing.T, n *wire.Network) {
		s := serve(t, n)
		for i := range int64(10) {
			s.posts(t, strings.Repeat("large ", 100_000), i+1)
			<-time.After(time.Hour)
		}
	})
}

func TestHTTP2(t *testing.T) {
	t.Parallel()
	in(t, 1, func(t *testing.T, n *wire.Network) {
		n.AddRule("*", "*", wire.Rule{Delay: 10 * time.Millisecond, Jitter: 10 * time.Millisecond})
		s := serve(t, n, func(server *http.Server, transport *http.Transport) {
			var unencrypted http.Protocols
			unencrypted.SetUnencryptedHTTP2(true)
			server.Protocols, transport.Protocols = &unencrypted, &unencrypted
		})
		for i := range int64(10) {
			s.posts(t, strings.Repeat("large ", 100_000), i+1)
			<-time.After(time.Hour)
		}
	})
}

func TestGRPC(t *testing.T) {
	t.Parallel()
	in(t, 1, func(t *testing.T, n *wire.Network) {
		server, status := grpc.NewServer(), health.NewServer()
		grpc_health_v1.RegisterHealthServer(server, status)
		l := listen(t, n.Host("server"))
		stopped := make(chan error)
		go func() { stopped <- server.Serve(l) }()
		conn, err := grpc.NewClient(l.Addr().String(), n.Host("client").DialOption(), grpc.WithTransportCredentials(insecure.NewCredentials()))
		if err != nil {
			t.Fatal(err)
		}
		client := grpc_health_v1.NewHealthClient(conn)
		watch, err := client.Watch(t.Context(), &grpc_health_v1.HealthCheckRequest{})
		if err != nil {
			t.Fatal(err)
		}
		for _, want := range []grpc_health_v1.HealthCheckResponse_ServingStatus{
			grpc_health_v1.HealthCheckResponse_SERVING, grpc_health_v1.HealthCheckResponse_NOT_SERVING,
		} {
			status.SetServingStatus("", want)
			if got, err := watch.Recv(); err != nil || got.GetStatus() != want {
				t.Errorf("watched %v %v, want %v", got, err, want)
			}
			<-time.After(time.Hour)
		}
		n.Host("client").Freeze()
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if _, err := client.Check(ctx, &grpc_health_v1.HealthCheckRequest{}); err == nil {
			t.Error("a frozen client was answered")
		}
		n.Host("client").Thaw()
		if _, err := client.Check(t.Context(), &grpc_health_v1.HealthCheckRequest{}); err != nil {
			t.Error(err)
		}
		if err := conn.Close(); err != nil {
			t.Error(err)
		}
		server.Stop()
		if err := <-stopped; err != nil {
			t.Error(err)
		}
	})
}

func TestLostRequestIsNotDone(t *testing.T) {
	t.Parallel()
	in(t, 1, func(t *testing.T, n *wire.Network) {
		s := serve(t, n)
		s.posts(t, "first", 1)
		n.AddRule("client", "server", wire.Rule{Break: 1, Times: 1})
		if err := s.post(t.Context(), "lost"); err == nil {
			t.Fatal("a lost request was answered")
		}
		s.posts(t, "again", 2)
	})
}

func TestLostAnswerIsDone(t *testing.T) {
	t.Parallel()
	in(t, 1, func(t *testing.T, n *wire.Network) {
		s := serve(t, n)
		s.posts(t, "first", 1)
		n.AddRule("server", "client", wire.Rule{Break: 1, Times: 1})
		if err := s.post(t.Context(), "its answer is lost"); err == nil {
			t.Fatal("a lost answer was read")
		}
		s.posts(t, "again", 3)
	})
}

func TestRequestIsDoneWhenTheCutHeals(t *testing.T) {
	t.Parallel()
	in(t, 1, func(t *testing.T, n *wire.Network) {
		s := serve(t, n)
		s.posts(t, "first", 1)
		heal := n.AddRule("client", "server", wire.Rule{Cut: true})
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if err := s.post(ctx, "held back"); !errors.Is(err, context.DeadlineExceeded) {
			t.Fatalf("over a cut direction: %v", err)
		}
		if got := s.done.Load(); got != 1 {
			t.Fatalf("%d requests were done while the direction was cut", got)
		}
		heal()
		synctest.Wait()
		if got := s.done.Load(); got != 2 {
			t.Fatalf("%d requests were done when the direction was healed", got)
		}
		s.posts(t, "again", 3)
	})
}

func TestHangLastsUntilTheDeadline(t *testing.T) {
	t.Parallel()
	in(t, 1, func(t *testing.T, n *wire.Network) {
		s := serve(t, n)
		s.posts(t, "first", 1)
		n.AddRule("server", "client", wire.Rule{Hang: 1, Times: 1})
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		began := time.Now()
		if err := s.post(ctx, "its answer hangs"); !errors.Is(err, context.DeadlineExceeded) || time.Since(began) != time.Minute {
			t.Fatalf("over a connection that hangs: %v after %v", err, time.Since(began))
		}
		s.posts(t, "again", 3)
	})
}

func TestServerIsKilledAndStartsAgain(t *testing.T) {
	t.Parallel()
	in(t, 1, func(t *testing.T, n *wire.Network) {
		s := serve(t, n)
		s.posts(t, "first", 1)
		n.Host("server").Kill()
		if err := s.post(t.Context(), "to nobody"); err == nil {
			t.Fatal("a dead server answered")
		}
		l, err := n.Host("server").ListenAt(t.Context(), s.Listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		again := &httptest.Server{Listener: l, Config: &http.Server{Handler: s.Config.Handler}}
		again.Start()
		defer again.Close()
		s.posts(t, "again", 2)
		s.client.CloseIdleConnections()
	})
}

// TestFrozenHolderLosesItsLease: a heartbeat every second, and a lease of ten.
func TestFrozenHolderLosesItsLease(t *testing.T) {
	t.Parallel()
	in(t, 1, func(t *testing.T, n *wire.Network) {
		var last atomic.Int64
		began := time.Now()
		s := serve(t, n, func(server *http.Server, _ *http.Transport) {
			server.Handler = http.HandlerFunc(func(http.ResponseWriter, *http.Request) { last.Store(int64(time.Since(began))) })
		})
		ctx, cancel := context.WithCancel(t.Context())
		stopped := make(chan struct{})
		go func() {
			defer close(stopped)
			for ticker := time.NewTicker(time.Second); ctx.Err() == nil; <-ticker.C {
				_ = s.post(ctx, "") // the next one follows
			}
		}()
		held := func() bool { return time.Since(began)-time.Duration(last.Load()) < 10*time.Second }
		for _, step := range []struct {
			what string
			do   func()
			want bool
		}{
			{"alive", func() {}, true},
			{"frozen", n.Host("client").Freeze, false},
			{"thawed", n.Host("client").Thaw, true},
		} {
			step.do()
			<-time.After(time.Hour)
			synctest.Wait()
			if got := held(); got != step.want {
				t.Errorf("%s: the lease is held: %v", step.what, got)
			}
		}
		cancel()
		<-stopped
	})
}
