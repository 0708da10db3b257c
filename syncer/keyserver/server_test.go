package keyserver

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/oscarfed/oscarfed/internal/connlimit"
	"github.com/oscarfed/oscarfed/syncer/origin"
	"github.com/oscarfed/oscarfed/test/await"
	"github.com/oscarfed/oscarfed/test/wire"
)

const (
	good   = "a-token-that-is-good"
	secret = "hush-hush-secret-key"
)

// site knows one token.
type site struct {
	answer func(ctx context.Context) (origin.Keys, error)
}

func (s site) OriginKeys(ctx context.Context, token string) (origin.Keys, error) {
	if token != good {
		return origin.Keys{}, ErrUnknown
	}
	if s.answer != nil {
		return s.answer(ctx)
	}
	return origin.Keys{Endpoint: "https://minio.a.example.org", Region: "eu-1", Verify: true, AccessKey: "alice", SecretKey: secret}, nil
}

// start runs a server in virtual time; who asks it, and what it logs.
func start(t *testing.T, cfg Config, at Site) (by *caller, log *await.Output) {
	t.Helper()
	n := wire.New(1)
	listener, err := n.Host("syncer").Listen(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	log = &await.Output{}
	cfg.Listener = listener
	cfg.Logger = slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	s, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx, at) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return &caller{url: "http://" + listener.Addr().String(), transport: n.Host("oscar").Transport(nil)}, log
}

// caller asks a server.
type caller struct {
	url       string
	transport *http.Transport
}

func (c *caller) get(t *testing.T, method, path string, header http.Header) (int, http.Header, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, c.url+path, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	req.Close = true
	if header != nil {
		req.Header = header
	}
	resp, err := c.transport.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, resp.Header, string(body)
}

func bearerHeader(token string) http.Header { return http.Header{"Authorization": {"Bearer " + token}} }

func TestTheOSCARIsAnswered(t *testing.T) {
	await.InVirtualTime(t, func(t *testing.T) {
		by, log := start(t, Config{}, site{})
		for _, path := range []string{"/system/config", "/system/config/"} {
			status, header, body := by.get(t, "GET", path, bearerHeader(good))
			want := `{"config":{},"minio_provider":{"endpoint":"https://minio.a.example.org","verify":true,"access_key":"alice","secret_key":"` + secret + `","region":"eu-1"},"allowed_image_repositories":[]}`
			if status != 200 || body != want || header.Get("Cache-Control") != "no-store" || !strings.HasPrefix(header.Get("Content-Type"), "application/json") {
				t.Errorf("%s: %d %v %s", path, status, header, body)
			}
		}
		if strings.Contains(log.String(), secret) || strings.Contains(log.String(), good) {
			t.Errorf("the log has a secret: %s", log)
		}
	})
}

// Whoever else calls learns nothing: not that there is anything, nor why he is refused.
func TestHostileCallers(t *testing.T) {
	await.InVirtualTime(t, func(t *testing.T) {
		by, log := start(t, Config{}, site{})
		for _, c := range []struct {
			method, path string
			header       http.Header
			status       int
		}{
			{"GET", "/system/config", nil, 401},
			{"GET", "/system/config", bearerHeader("another"), 401},
			{"GET", "/system/config", bearerHeader(""), 401},
			{"GET", "/system/config", bearerHeader(good + "x"), 401},
			{"GET", "/system/config", http.Header{"Authorization": {"bearer " + good}}, 401},
			{"GET", "/system/config", http.Header{"Authorization": {good}}, 401},
			{"GET", "/system/config", http.Header{"Authorization": {"Basic b3NjYXI6" + good}}, 401},
			{"GET", "/system/config", http.Header{"Authorization": {"Bearer " + good, "Bearer " + good}}, 401},
			{"GET", "/system/config", bearerHeader(strings.Repeat("x", maxToken+1)), 401},
			{"GET", "/system/config?token=" + good, nil, 401},
			{"GET", "/", bearerHeader(good), 404},
			{"GET", "/system/config//", bearerHeader(good), 404},
			{"GET", "/system/config/x", bearerHeader(good), 404},
			{"GET", "/system/info", bearerHeader(good), 404},
			{"GET", "/system/services", bearerHeader(good), 404},
			{"GET", "/metrics", bearerHeader(good), 404},
			{"HEAD", "/system/config", bearerHeader(good), 404},
			{"POST", "/system/config", bearerHeader(good), 404},
			{"PUT", "/system/config", bearerHeader(good), 404},
			{"DELETE", "/system/config", bearerHeader(good), 404},
			{"OPTIONS", "/system/config", bearerHeader(good), 404},
		} {
			status, header, body := by.get(t, c.method, c.path, c.header)
			if status != c.status || body != "" || header.Get("WWW-Authenticate") != "" {
				t.Errorf("%s %s %.60s: %d %v %q", c.method, c.path, c.header, status, header, body)
			}
		}
		if strings.Contains(log.String(), good) {
			t.Errorf("the log has the token: %s", log)
		}
	})
}

// A head of any length is not read.
func TestLongHeadsAreNotRead(t *testing.T) {
	await.InVirtualTime(t, func(t *testing.T) {
		by, _ := start(t, Config{}, site{})
		header := bearerHeader(good)
		header.Set("X-Long", strings.Repeat("x", maxHeader+8<<10))
		req, err := http.NewRequestWithContext(t.Context(), "GET", by.url+"/system/config", http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		req.Header, req.Close = header, true
		resp, err := by.transport.RoundTrip(req)
		if err != nil {
			return // the connection was closed while it was sent
		}
		defer resp.Body.Close()
		if resp.StatusCode != http.StatusRequestHeaderFieldsTooLarge {
			t.Errorf("status %d", resp.StatusCode)
		}
	})
}

// Who guesses is told to go away, and that keeps nobody from his answer who has a token.
func TestGuessingIsLimited(t *testing.T) {
	await.InVirtualTime(t, func(t *testing.T) {
		by, _ := start(t, Config{Refusals: 1e-9, Burst: 2}, site{})
		var got []int
		for i := range 4 {
			status, _, _ := by.get(t, "GET", "/system/config", bearerHeader(fmt.Sprint("guess", i)))
			got = append(got, status)
		}
		if fmt.Sprint(got) != "[401 401 429 429]" {
			t.Errorf("answers %v", got)
		}
		if status, _, _ := by.get(t, "GET", "/system/config", bearerHeader(good)); status != 200 {
			t.Errorf("who has a token: %d", status)
		}
	})
}

// That there are no keys now is told by the status alone; why is in the log.
func TestWithoutKeys(t *testing.T) {
	await.InVirtualTime(t, func(t *testing.T) {
		by, log := start(t, Config{}, site{answer: func(context.Context) (origin.Keys, error) {
			return origin.Keys{}, errors.New("the origin is away")
		}})
		if status, _, body := by.get(t, "GET", "/system/config", bearerHeader(good)); status != 503 || body != "" {
			t.Errorf("%d %q", status, body)
		}
		if !strings.Contains(log.String(), "the origin is away") {
			t.Errorf("the log: %s", log)
		}
	})
}

// An answer is over before OSCAR gives up.
func TestAnAnswerTakesNoLongerThanItMay(t *testing.T) {
	await.InVirtualTime(t, func(t *testing.T) {
		by, _ := start(t, Config{}, site{answer: func(ctx context.Context) (origin.Keys, error) {
			<-ctx.Done()
			return origin.Keys{}, ctx.Err()
		}})
		began := time.Now()
		if status, _, _ := by.get(t, "GET", "/system/config", bearerHeader(good)); status != 503 {
			t.Errorf("status %d", status)
		}
		if took := time.Since(began); took < 18*time.Second || took > 20*time.Second {
			t.Errorf("it took %s", took)
		}
	})
}

// So many are answered at a time.
func TestSoManyAreAnsweredAtOnce(t *testing.T) {
	entered, release := make(chan struct{}), make(chan struct{})
	s, err := New(Config{Concurrent: 1})
	if err != nil {
		t.Fatal(err)
	}
	h := s.handler(site{answer: func(context.Context) (origin.Keys, error) {
		close(entered)
		<-release
		return origin.Keys{}, nil
	}})
	ask := func() int {
		r := httptest.NewRequest("GET", "/system/config", nil)
		r.Header = bearerHeader(good)
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		return w.Code
	}
	first := make(chan int)
	go func() { first <- ask() }()
	<-entered
	if got := ask(); got != 503 {
		t.Errorf("the second: %d", got)
	}
	close(release)
	if got := <-first; got != 200 {
		t.Errorf("the first: %d", got)
	}
}

// One that opens connections and says nothing does not shut out the others.
func TestConnectionsAreLimited(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	turn := &limitedListener{Listener: l, limit: connlimit.New(3, 2)}
	if _, ok := turn.limit.Begin(&net.TCPAddr{IP: net.IPv4(10, 0, 0, 9)}); !ok {
		t.Fatal("the first is refused")
	}
	t.Cleanup(func() { l.Close() })
	inside := make(chan net.Conn, 8)
	go func() {
		for {
			c, err := turn.Accept()
			if err != nil {
				return
			}
			inside <- c
		}
	}()
	dial := func() net.Conn {
		t.Helper()
		c, err := net.Dial("tcp", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Close() })
		return c
	}
	dial()
	first := <-inside
	dial()
	<-inside
	// The third of this address is closed at once.
	if _, err := bufio.NewReader(dial()).ReadByte(); !errors.Is(err, io.EOF) && !errors.Is(err, net.ErrClosed) {
		t.Logf("it was ended with %v", err)
	}
	if len(inside) != 0 {
		t.Fatal("a third one is inside")
	}
	for range 2 {
		_ = first.Close() // the second time does not count
	}
	dial()
	<-inside
	if _, ok := turn.limit.Begin(&net.TCPAddr{IP: net.IPv4(10, 0, 0, 8)}); ok {
		t.Error("a fourth one is inside")
	}
}

func TestTheAddressIsTaken(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	s, err := New(Config{Listen: l.Addr().String()})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Run(t.Context(), site{}); err == nil || !strings.Contains(err.Error(), "local OSCAR") {
		t.Errorf("error %v", err)
	}
}
