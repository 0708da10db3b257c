package server

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/oscarfed/oscarfed/internal/handshake"
)

// Defaults of ServeConfig and limits of the server.
const (
	DefaultDrain       = 15 * time.Second
	DefaultReadTimeout = 30 * time.Second

	headerTimeout = 10 * time.Second
	idleTimeout   = 2 * time.Minute
	// unreadTimeout is how long net/http may wait for what a handler has left of a body. It
	// reads that before it answers, so that the connection can be used again.
	unreadTimeout = 2 * time.Second
	maxHeader     = 64 << 10 // bytes
)

// ServeConfig says where and what to serve.
type ServeConfig struct {
	// Listen is closed when Serve returns.
	Listen  net.Listener
	Handler http.Handler
	// TLS is nil for plain HTTP.
	TLS    *tls.Config
	Logger *slog.Logger
	// ReadTimeout is how long a caller may take to send a whole request; 0 means
	// DefaultReadTimeout.
	ReadTimeout time.Duration
	// Handshakes bounds connections that have not sent a request yet.
	Handshakes handshake.Limits
	// Drain is how long requests in flight may take to finish after ctx is done;
	// 0 means DefaultDrain. Those that wait for an outcome longer are cut off,
	// which loses nothing: the work goes on without them.
	Drain time.Duration
	// OnDrain is called when draining begins; it may be nil.
	OnDrain func()
}

// Serve answers requests until ctx is done, then lets those in flight finish. It
// returns nil after an orderly stop.
func Serve(ctx context.Context, cfg ServeConfig) error {
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	if cfg.ReadTimeout <= 0 {
		cfg.ReadTimeout = DefaultReadTimeout
	}
	if cfg.Drain <= 0 {
		cfg.Drain = DefaultDrain
	}
	// Requests outlive ctx by the drain, and no longer.
	requests, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	defer cancel(nil)
	server := &http.Server{
		Handler:           boundUnread(cfg.Handler),
		TLSConfig:         cfg.TLS,
		ReadHeaderTimeout: min(headerTimeout, cfg.ReadTimeout),
		ReadTimeout:       cfg.ReadTimeout,
		// The time of an answer depends on the request: see deadline. This bounds
		// what has no deadline of its own.
		WriteTimeout:   MaxWait + DefaultTimeout + writeSlack,
		IdleTimeout:    idleTimeout,
		MaxHeaderBytes: maxHeader,
		ErrorLog:       slog.NewLogLogger(cfg.Logger.Handler(), slog.LevelWarn),
		BaseContext:    func(net.Listener) context.Context { return requests },
	}
	listener := handshake.New(cfg.Handshakes, cfg.Logger).HTTP(server, cfg.Listen)
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error {
		var err error
		if cfg.TLS != nil {
			err = server.ServeTLS(listener, "", "")
		} else {
			err = server.Serve(listener)
		}
		if errors.Is(err, http.ErrServerClosed) {
			return nil
		}
		return fmt.Errorf("serve %s: %w", cfg.Listen.Addr(), err)
	})
	group.Go(func() error {
		<-ctx.Done()
		if cfg.OnDrain != nil {
			cfg.OnDrain()
		}
		drain, stop := context.WithTimeout(context.WithoutCancel(ctx), cfg.Drain)
		defer stop()
		if err := server.Shutdown(drain); err != nil {
			cancel(errors.New("the control plane is stopping"))
			cfg.Logger.Warn("requests were cut off", "after", cfg.Drain.String())
			return server.Close()
		}
		return nil
	})
	return group.Wait()
}

// boundUnread bounds the time for what is left of a body when its handler has returned. Else a
// request that was refused at once would hold its connection until its read deadline.
func boundUnread(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.ProtoMajor != 1 || r.Body == http.NoBody { // a stream of HTTP/2 ends with its handler
			next.ServeHTTP(w, r)
			return
		}
		body := &incomingBody{ReadCloser: r.Body}
		copied := r.WithContext(r.Context()) // net/http looks at the body in its own request
		copied.Body = body
		next.ServeHTTP(w, copied)
		if !body.whole {
			_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(unreadTimeout))
		}
	})
}

// incomingBody notes whether a body was read to its end.
type incomingBody struct {
	io.ReadCloser
	whole bool
}

func (b *incomingBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	b.whole = b.whole || errors.Is(err, io.EOF)
	return n, err
}

// Exposed says whether a listener can be reached from other machines. Plain HTTP there shows all
// credentials: the operator must have allowed it explicitly.
func Exposed(addr net.Addr) bool {
	tcp, ok := addr.(*net.TCPAddr)
	return ok && !tcp.IP.IsLoopback()
}
