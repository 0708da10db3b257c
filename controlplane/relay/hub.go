package relay

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	v1 "github.com/oscarfed/oscarfed/api/v1"
	"github.com/oscarfed/oscarfed/internal/share"
)

// ErrNoStream says that the syncer of a cluster has no stream to this instance.
var ErrNoStream = errors.New("no stream of the cluster's syncer")

// Peer is the cluster at the other end of a stream.
type Peer struct {
	Cluster string
	// UID of its registration.
	UID string
	// Since is when the stream began.
	Since time.Time
}

// pingAfter is the silence after which a stream is pinged. A stream that does not answer within the
// same time again, or takes no byte, is closed.
const pingAfter = 15 * time.Second

// Config of a Hub.
type Config struct {
	Logger   *slog.Logger
	Registry prometheus.Registerer
}

// Hub holds the streams. It is safe for concurrent use.
type Hub struct {
	cfg     Config
	streams prometheus.Gauge
	taken   prometheus.Counter

	mu        sync.Mutex
	byCluster map[string]*stream
	closed    bool
}

// stream is one connection.
type stream struct {
	peer Peer
	conn *http.ClientConn
	// runs and logs have a slot for each answer that a caller reads: see connectionBuffer.
	runs, logs *share.Slots
	// gone is closed when the connection is unusable.
	gone chan struct{}
	once sync.Once
}

// Limits in bytes: the head of an answer, and the unread part of bodies.
const (
	maxHead = 64 << 10
	// connectionBuffer has space for every answer that a caller may leave unread, and 2 MiB for
	// those that are read here at once. So an unread one keeps no other one from coming.
	connectionBuffer = (v1.RelayRuns+v1.RelayLogs)*v1.RelayBuffer + 2<<20
)

// New makes a Hub without streams.
func New(cfg Config) (*Hub, error) {
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	h := &Hub{
		cfg: cfg, byCluster: map[string]*stream{},
		streams: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "oscarfed_relay_streams", Help: "Clusters whose syncers have a stream to this instance.",
		}),
		taken: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "oscarfed_relay_streams_total", Help: "Streams of syncers that this instance has taken.",
		}),
	}
	if cfg.Registry != nil {
		if err := errors.Join(cfg.Registry.Register(h.streams), cfg.Registry.Register(h.taken)); err != nil {
			return nil, fmt.Errorf("register metrics: %w", err)
		}
	}
	return h, nil
}

// Serve makes a connection usable for requests until it ends, ctx ends, or a newer stream of the
// cluster replaces it. It closes the connection.
func (h *Hub) Serve(ctx context.Context, peer Peer, conn net.Conn) error {
	s, err := h.open(ctx, peer, conn)
	if err != nil {
		return errors.Join(err, conn.Close())
	}
	defer s.close()
	if !h.add(s) {
		return nil
	}
	defer h.drop(s)
	h.cfg.Logger.Info("a cluster is connected", "cluster", peer.Cluster, "cluster_uid", peer.UID, "remote", conn.RemoteAddr().String())
	select {
	case <-ctx.Done():
	case <-s.gone:
	}
	h.cfg.Logger.Info("a cluster is not connected any more", "cluster", peer.Cluster, "cluster_uid", peer.UID, "lasted", time.Since(peer.Since).Round(time.Millisecond).String())
	return nil
}

// continueTimeout is longer than a request may wait at a syncer.
const continueTimeout = 15 * time.Minute

// open makes an HTTP client of an accepted connection.
func (h *Hub) open(ctx context.Context, peer Peer, conn net.Conn) (*stream, error) {
	given := make(chan net.Conn, 1)
	given <- conn
	protocols := new(http.Protocols)
	protocols.SetUnencryptedHTTP2(true)
	transport := &http.Transport{
		Protocols: protocols,
		DialContext: func(context.Context, string, string) (net.Conn, error) {
			select {
			case c := <-given:
				return c, nil
			default:
				return nil, ErrNoStream
			}
		},
		DisableCompression:     true,
		MaxResponseHeaderBytes: maxHead,
		// A body is sent when the syncer asks for it: until then it would only fill the buffers of
		// the requests that are answered. A connection that is dead, pings tell.
		ExpectContinueTimeout: continueTimeout,
		HTTP2: &http.HTTP2Config{
			SendPingTimeout: pingAfter, PingTimeout: pingAfter, WriteByteTimeout: 2 * pingAfter,
			MaxReceiveBufferPerStream: v1.RelayBuffer, MaxReceiveBufferPerConnection: connectionBuffer,
		},
	}
	client, err := transport.NewClientConn(ctx, "http", "relay:80")
	if err != nil {
		return nil, fmt.Errorf("begin a stream: %w", err)
	}
	s := &stream{peer: peer, conn: client, gone: make(chan struct{}), runs: share.New(v1.RelayRuns, v1.RelayWaiting), logs: share.New(v1.RelayLogs, v1.RelayWaiting)}
	client.SetStateHook(func(c *http.ClientConn) {
		if c.Err() != nil {
			s.lost()
		}
	})
	if client.Err() != nil {
		s.lost()
	}
	return s, nil
}

func (s *stream) lost() { s.once.Do(func() { close(s.gone) }) }

func (s *stream) close() {
	s.lost()
	_ = s.conn.Close() // the stream is lost anyway
}

// add registers a stream and ends an older one of its cluster. It is false after Close.
func (h *Hub) add(s *stream) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		return false
	}
	if old := h.byCluster[s.peer.Cluster]; old != nil {
		old.lost()
	}
	h.byCluster[s.peer.Cluster] = s
	h.taken.Inc()
	h.streams.Set(float64(len(h.byCluster)))
	return true
}

func (h *Hub) drop(s *stream) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.byCluster[s.peer.Cluster] == s {
		delete(h.byCluster, s.peer.Cluster)
		h.streams.Set(float64(len(h.byCluster)))
	}
}

// Peer is the peer of the stream of a cluster; false when there is none.
func (h *Hub) Peer(cluster string) (Peer, bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	s := h.byCluster[cluster]
	if s == nil {
		return Peer{}, false
	}
	return s.peer, true
}

// CloseUnless closes the streams for which wanted is false.
func (h *Hub) CloseUnless(wanted func(Peer) bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, s := range h.byCluster {
		if !wanted(s.peer) {
			s.lost()
		}
	}
}

// Close ends all streams. Later ones are refused.
func (h *Hub) Close() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.closed = true
	for _, s := range h.byCluster {
		s.lost()
	}
}

// find gives the stream of a cluster under one registration. ErrNoStream means that there is none.
func (h *Hub) find(cluster, uid string) (*stream, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	s := h.byCluster[cluster]
	if s == nil || s.peer.UID != uid {
		return nil, fmt.Errorf("cluster %s: %w", cluster, ErrNoStream)
	}
	return s, nil
}

// do sends a request to the syncer. It ignores the host of the URL. The context of the request
// bounds it; the body of the answer is streamed, and closing it early cancels the request at the
// syncer. ErrNoStream means that nothing was sent.
func (s *stream) do(req *http.Request) (*http.Response, error) {
	if s.conn.Err() != nil {
		return nil, fmt.Errorf("cluster %s: %w", s.peer.Cluster, ErrNoStream)
	}
	return s.conn.RoundTrip(req)
}
