package relay_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	v1 "github.com/oscarfed/oscarfed/api/v1"
	"github.com/oscarfed/oscarfed/controlplane/relay"
	"github.com/oscarfed/oscarfed/internal/outbound"
	dialler "github.com/oscarfed/oscarfed/syncer/relay"
	"github.com/oscarfed/oscarfed/test/wire"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// front is an API that takes streams over TLS for a hub, without proofs.
type front struct {
	*httptest.Server
	net *wire.Network
	hub *relay.Hub

	mu    sync.Mutex
	conns []net.Conn
}

func newFront(t *testing.T, instance string) *front {
	t.Helper()
	hub, err := relay.New(relay.Config{})
	if err != nil {
		t.Fatal(err)
	}
	f := &front{net: wire.ForTest(t), hub: hub}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /system/relay/challenge", func(w http.ResponseWriter, r *http.Request) {
		_, there := hub.Peer("c")
		body, _ := io.ReadAll(r.Body)
		if there && strings.Contains(string(body), instance) {
			_, _ = io.WriteString(w, `{"instance":"`+instance+`"}`)
			return
		}
		_, _ = io.WriteString(w, `{"instance":"`+instance+`","challenge":"x"}`)
	})
	mux.HandleFunc("GET /system/relay", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Connection", "Upgrade")
		w.Header().Set("Upgrade", v1.RelayProtocol)
		w.Header().Set(v1.RelayInstanceHeader, instance)
		w.WriteHeader(101)
		conn, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		f.mu.Lock()
		f.conns = append(f.conns, conn)
		f.mu.Unlock()
		_ = hub.Serve(r.Context(), relay.Peer{Cluster: "c", UID: "u", Since: time.Now()}, conn)
	})
	l, err := f.net.Host("api").ListenAt(t.Context(), "example.com:443") // as httptest's certificate has it
	if err != nil {
		t.Fatal(err)
	}
	f.Server = &httptest.Server{Listener: l, Config: &http.Server{Handler: mux, ReadHeaderTimeout: time.Minute}}
	f.EnableHTTP2 = true // which the syncer must not take
	f.StartTLS()
	t.Cleanup(func() {
		hub.Close()
		f.Close()
	})
	return f
}

// cut breaks all connections, as a router that forgets them does.
func (f *front) cut() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, c := range f.conns {
		if tc, ok := c.(*tls.Conn); ok {
			_ = tc.NetConn().Close()
		}
	}
	f.conns = nil
}

// site answers what a test says.
type site struct {
	send func(context.Context, dialler.Outgoing) (*http.Response, error)
}

func (site) Cluster() (id, uid string)                  { return "c", "u" }
func (site) OpenProof(sealed string) (string, error)    { return sealed, nil }
func (site) Ours(context.Context, string, string) error { return nil }
func (site) Invokes(_, _, _ string) bool                { return true }
func (site) Vote(context.Context, dialler.Question) (dialler.Vote, error) {
	return dialler.Vote{}, nil
}
func (s site) Send(ctx context.Context, out dialler.Outgoing) (*http.Response, error) {
	return s.send(ctx, out)
}

func text(body string) (*http.Response, error) {
	return &http.Response{StatusCode: 200, Header: http.Header{}, ContentLength: -1, Body: io.NopCloser(strings.NewReader(body))}, nil
}

// start runs a syncer's end until the test's end.
func start(t *testing.T, f *front, s site, limits dialler.Limits) (stop func()) {
	t.Helper()
	r, err := dialler.New(dialler.Config{ControlPlane: f.URL, Roots: rootsOf(f), Limits: limits, Dial: f.net.Host("syncer").DialContext})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	done := make(chan struct{})
	go func() {
		defer close(done)
		r.Run(ctx, s)
	}()
	stop = sync.OnceFunc(func() {
		cancel()
		<-done
	})
	t.Cleanup(stop)
	return stop
}

func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	limit := time.After(time.Hour)
	for !ok() {
		select {
		case <-time.After(10 * time.Millisecond):
		case <-limit:
			t.Fatalf("never: %s", what)
		}
	}
}

func replica() relay.Replica {
	return relay.Replica{Cluster: "c", ClusterUID: "u", Service: "s", UID: "life"}
}

func jobs(ctx context.Context, hub *relay.Hub) (string, error) {
	resp, err := hub.Jobs(ctx, replica(), "")
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	return string(body), err
}

// The syncer is told for whom it is asked, and shares what it does at once by that.
func TestOneAccountDoesNotKeepASyncerBusyForOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, wake, entered := newFront(t, "one"), make(chan struct{}), make(chan struct{}, 10)
		start(t, f, site{func(_ context.Context, out dialler.Outgoing) (*http.Response, error) {
			entered <- struct{}{}
			<-wake
			return text("ok")
		}}, dialler.Limits{Asks: 3}) // one is kept for who has none
		eventually(t, "a stream", func() bool { _, ok := f.hub.Peer("c"); return ok })
		as := func(account string, wait time.Duration) error {
			r := replica()
			r.Tenant.Account, r.Wait = account, wait
			resp, err := f.hub.Jobs(t.Context(), r, "")
			if err == nil {
				_ = resp.Body.Close()
			}
			return err
		}
		var asleep sync.WaitGroup
		defer asleep.Wait()
		defer close(wake)
		for range 2 {
			asleep.Go(func() { _ = as("greedy", 0) })
			<-entered
		}
		if e, ok := errors.AsType[*relay.Error](as("greedy", 0)); !ok || e.Word != v1.RelayBusy {
			t.Errorf("it got the slot that is kept: %v", e)
		}
		asleep.Go(func() { _ = as("third", 0) })
		<-entered
		if e, ok := errors.AsType[*relay.Error](as("other", 0)); !ok || e.Word != v1.RelayBusy {
			t.Errorf("there was one more slot: %v", e)
		}
		answered := make(chan string, 3)
		for _, account := range []string{"greedy", "greedy", "other"} {
			asleep.Go(func() {
				if err := as(account, time.Minute); err != nil {
					t.Errorf("%s: %v", account, err)
				}
				answered <- account
			})
			<-time.After(time.Second) // it is at the syncer
		}
		for range 4 { // one after another
			wake <- struct{}{}
			<-time.After(time.Second) // the next one is at its OSCAR
		}
		if first := <-answered; first != "other" {
			t.Errorf("the first answer after those that had a slot is for %s", first)
		}
	})
}

// large answers more than a stream buffers, and small what it buffers whole.
const (
	small = 200 << 10
	large = 1 << 20
)

// bounded ends what a test waits for when that never comes.
func bounded(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
	t.Cleanup(cancel)
	return ctx
}

// replicaFor is one that the nth of many accounts asks about: together they take all slots.
func replicaFor(n int) relay.Replica {
	r := replica()
	r.Tenant.Account = fmt.Sprint(n)
	return r
}

// Callers who do not read their answers have as many slots as there are. Everything else comes. An
// answer that the syncer has sent whole counts until it is closed.
func TestUnreadAnswersHoldUpNoOther(t *testing.T) {
	for name, size := range map[string]int{"whole at the control plane": small, "half at the syncer": large} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFront(t, "one")
				start(t, f, site{func(_ context.Context, out dialler.Outgoing) (*http.Response, error) {
					if out.Path[0] == "run" || len(out.Path) == 4 { // an invocation, or a log
						return text(strings.Repeat("x", size))
					}
					return text("here")
				}}, dialler.Limits{})
				eventually(t, "a stream", func() bool { _, there := f.hub.Peer("c"); return there })
				ctx := bounded(t)
				for _, kind := range []struct {
					most int
					ask  func(relay.Replica) (*http.Response, error)
				}{
					{128, func(r relay.Replica) (*http.Response, error) {
						return f.hub.Run(ctx, r, relay.Invocation{Token: "t"})
					}},
					{16, func(r relay.Replica) (*http.Response, error) { return f.hub.Log(ctx, r, "j", false) }},
				} {
					var unread []*http.Response
					for len(unread) <= kind.most {
						resp, err := kind.ask(replicaFor(len(unread)))
						if e, ok := errors.AsType[*relay.Error](err); ok && e.Word == v1.RelayBusy && !e.Sent {
							break
						}
						if err != nil {
							t.Fatalf("after %d: %v", len(unread), err)
						}
						defer resp.Body.Close()
						unread = append(unread, resp)
						<-time.After(time.Second) // as much as may is here
					}
					if len(unread) != kind.most {
						t.Fatalf("%d answers are unread, want %d", len(unread), kind.most)
					}
					if got, err := jobs(ctx, f.hub); err != nil || got != "here" {
						t.Errorf("a list of jobs: %q, %v", got, err)
					}
					_ = unread[0].Body.Close()
					<-time.After(time.Second) // the syncer knows it
					resp, err := kind.ask(replicaFor(0))
					if err != nil {
						t.Fatalf("one was given up, and its slot is not free: %v", err)
					}
					defer resp.Body.Close()
					if got, err := io.ReadAll(resp.Body); err != nil || len(got) != size {
						t.Errorf("one who reads has %d bytes of %d, %v", len(got), size, err)
					}
				}
			})
		})
	}
}

// Bodies that OSCAR does not take, as many as may be under way, hold up no other one.
func TestBodiesThatNobodyTakesHoldUpNoOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, wake, entered := newFront(t, "one"), make(chan struct{}), make(chan struct{}, 128)
		start(t, f, site{func(_ context.Context, out dialler.Outgoing) (*http.Response, error) {
			if out.Path[0] == "run" {
				if _, err := io.ReadFull(out.Body, make([]byte, 1)); err != nil {
					return nil, err
				}
				entered <- struct{}{}
				<-wake
				return text("late")
			}
			return text("here")
		}}, dialler.Limits{})
		eventually(t, "a stream", func() bool { _, there := f.hub.Peer("c"); return there })
		ctx := bounded(t)
		var asleep sync.WaitGroup
		defer asleep.Wait()
		defer close(wake)
		body := strings.Repeat("x", large)
		for n := range 128 {
			asleep.Go(func() {
				resp, err := f.hub.Run(ctx, replicaFor(n), relay.Invocation{Token: "t", Body: strings.NewReader(body), Length: large})
				if err != nil {
					t.Error(err)
					return
				}
				_ = resp.Body.Close()
			})
			select {
			case <-entered:
			case <-ctx.Done():
				t.Fatal("the first bytes of a body have not come")
			}
		}
		<-time.After(time.Second) // as much as may is at the syncer
		resp, err := f.hub.Vote(ctx, replica(), v1.RelayQuestion{Owner: "o", Service: []byte(`{"script":"` + body[:64<<10] + `"}`)}, "")
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
	})
}

func TestAStreamThatIsCutComesBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFront(t, "one")
		stop := start(t, f, site{func(context.Context, dialler.Outgoing) (*http.Response, error) { return text("here") }}, dialler.Limits{})
		answers := func() bool { got, err := jobs(t.Context(), f.hub); return err == nil && got == "here" }
		eventually(t, "an answer", answers)
		for range 3 {
			first, _ := f.hub.Peer("c")
			f.cut()
			eventually(t, "another stream", func() bool { p, there := f.hub.Peer("c"); return there && p.Since.After(first.Since) })
			eventually(t, "an answer on it", answers)
		}
		stop()
		eventually(t, "the end of the stream", func() bool { _, there := f.hub.Peer("c"); return !there })
		if _, err := jobs(t.Context(), f.hub); !errors.Is(err, relay.ErrNoStream) {
			t.Errorf("without a stream: %v", err)
		}
	})
}

// What was under way when the connection broke may have been done: it is said so.
func TestWhatWasUnderWayMayHaveBeenDone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFront(t, "one")
		entered := make(chan struct{}, 1)
		start(t, f, site{func(ctx context.Context, _ dialler.Outgoing) (*http.Response, error) {
			entered <- struct{}{}
			<-ctx.Done()
			return nil, ctx.Err()
		}}, dialler.Limits{})
		eventually(t, "a stream", func() bool { _, there := f.hub.Peer("c"); return there })
		go func() {
			<-entered
			f.cut()
		}()
		_, err := f.hub.Run(t.Context(), replica(), relay.Invocation{Token: "t", Body: http.NoBody})
		if e, ok := errors.AsType[*relay.Error](err); !ok || !e.Sent {
			t.Errorf("%v", err)
		}
	})
}

// A refusal comes before the body is asked for, so that another member can be given it.
func TestARefusedInvocationHasNotReadItsBody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFront(t, "one")
		start(t, f, site{func(context.Context, dialler.Outgoing) (*http.Response, error) {
			return nil, dialler.ErrNotSent
		}}, dialler.Limits{})
		eventually(t, "a stream", func() bool { _, there := f.hub.Peer("c"); return there })
		body := &counting{Reader: strings.NewReader(strings.Repeat("x", 1<<20))}
		_, err := f.hub.Run(t.Context(), replica(), relay.Invocation{Token: "t", Body: body, Length: 1 << 20})
		if e, ok := errors.AsType[*relay.Error](err); !ok || e.Sent || e.Word != v1.RelayAway || body.read() != 0 {
			t.Errorf("%v; %d bytes were read", err, body.read())
		}
	})
}

type counting struct {
	io.Reader
	mu sync.Mutex
	n  int
}

func (c *counting) Read(p []byte) (int, error) {
	n, err := c.Reader.Read(p)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.n += n
	return n, err
}

func (c *counting) read() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.n
}

// A peer that has stopped without closing is found out by pings, and given up.
func TestASilentPeerIsGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hub, err := relay.New(relay.Config{})
		if err != nil {
			t.Fatal(err)
		}
		defer hub.Close()
		ours, theirs := net.Pipe()
		defer theirs.Close()                               //nolint:errcheck // of a test
		go func() { _, _ = io.Copy(io.Discard, theirs) }() // reads, and says nothing
		done := make(chan error, 1)
		go func() { done <- hub.Serve(t.Context(), relay.Peer{Cluster: "c", UID: "u"}, ours) }()
		select {
		case err := <-done:
			if err != nil {
				t.Error(err)
			}
		case <-time.After(time.Hour):
			t.Error("it is still served")
		}
		if _, there := hub.Peer("c"); there {
			t.Error("it is still there")
		}
	})
}

func TestANewerStreamTakesThePlace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hub, err := relay.New(relay.Config{})
		if err != nil {
			t.Fatal(err)
		}
		defer hub.Close()
		var ends []chan error
		for i := range 2 {
			ours, theirs := net.Pipe()
			defer theirs.Close() //nolint:errcheck // of a test
			go func() { _, _ = io.Copy(io.Discard, theirs) }()
			done := make(chan error, 1)
			since := time.Unix(int64(i+1), 0)
			go func() { done <- hub.Serve(t.Context(), relay.Peer{Cluster: "c", UID: "u", Since: since}, ours) }()
			eventually(t, "the stream", func() bool { p, there := hub.Peer("c"); return there && p.Since.Equal(since) })
			ends = append(ends, done)
		}
		if err := <-ends[0]; err != nil {
			t.Error(err)
		}
		if p, there := hub.Peer("c"); !there || p.Since.Unix() != 2 {
			t.Error("the newer one is not there")
		}
		hub.CloseUnless(func(p relay.Peer) bool { return p.UID != "u" })
		if err := <-ends[1]; err != nil {
			t.Error(err)
		}
	})
}

func rootsOf(f *front) outbound.RootPool {
	pool := x509.NewCertPool()
	pool.AddCert(f.Certificate())
	return func() *x509.CertPool { return pool }
}
