package server

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/oscarfed/oscarfed/api/server/middleware"
	"github.com/oscarfed/oscarfed/api/server/respond"
	v1 "github.com/oscarfed/oscarfed/api/v1"
	"github.com/oscarfed/oscarfed/controlplane/clusters"
	"github.com/oscarfed/oscarfed/controlplane/fault"
)

// Streams are the use cases of syncers that open a stream.
type Streams interface {
	Instance() string
	ChallengeStream(ctx context.Context, cluster, uid string, connected []string) (clusters.StreamChallenge, error)
	TakeStream(ctx context.Context, open clusters.OpenStream) (serve func(context.Context, net.Conn) error, err error)
}

// relayRoute has no deadline of its own: see openRelay.
const relayRoute = "/system/relay"

// maxConnected is how many instances a syncer may say that it has streams to.
const maxConnected = 64

// challengeRelay answers POST /system/relay/challenge.
func (s *Server) challengeRelay(w http.ResponseWriter, r *http.Request) error {
	var in v1.Relay
	if _, err := readJSON(r, "request", &in); err != nil {
		return err
	}
	if len(in.Connected) > maxConnected {
		return tooManyConnected()
	}
	c, err := s.cp.Streams.ChallengeStream(r.Context(), in.ClusterID, in.ClusterUID, in.Connected)
	if err != nil {
		return err
	}
	out := v1.RelayChallenge{Instance: c.Instance, Challenge: c.Sealed, Instances: c.Instances}
	if c.Sealed != "" {
		out.ExpiresAt = &v1.Time{Time: c.Expires}
	}
	return respond.JSON(w, http.StatusOK, out)
}

// openRelay answers GET /system/relay: the connection becomes the stream of a syncer, and
// stays with this handler until it ends.
func (s *Server) openRelay(w http.ResponseWriter, r *http.Request) {
	serve, err := s.acceptRelay(r)
	if err != nil {
		if e, ok := errors.AsType[*fault.Error](err); ok && e.Code == fault.CodeForbidden {
			s.limits.Failed(w, r)
		}
		s.fail(w, r, err)
		return
	}
	respond.StateOf(r).Watch = true // it lasts as long as its caller likes
	w.Header().Set("Connection", "Upgrade")
	w.Header().Set("Upgrade", v1.RelayProtocol)
	w.Header().Set(v1.RelayInstanceHeader, s.cp.Streams.Instance())
	w.WriteHeader(http.StatusSwitchingProtocols)
	conn, buffered, err := http.NewResponseController(w).Hijack()
	if err != nil {
		s.fail(w, r, fmt.Errorf("take over the connection: %w", err))
		return
	}
	if err := buffered.Flush(); err != nil {
		_ = conn.Close() // it is broken
		return
	}
	// The time limits were those of the request.
	if err := conn.SetDeadline(time.Time{}); err != nil {
		_ = conn.Close() // it is broken
		return
	}
	if err := serve(r.Context(), &upgraded{Conn: conn, early: buffered.Reader}); err != nil {
		s.log.Warn("a stream did not begin", "request_id", respond.StateOf(r).ID, "error", err)
	}
}

func (s *Server) acceptRelay(r *http.Request) (func(context.Context, net.Conn) error, error) {
	if s.limits.FailedTooOften(r) {
		return nil, middleware.Exhausted("too many refused requests from this address")
	}
	if r.ProtoMajor != 1 || !r.ProtoAtLeast(1, 1) || !strings.EqualFold(r.Header.Get("Upgrade"), v1.RelayProtocol) || !asksUpgrade(r.Header) {
		return nil, respond.Errorf(fault.CodeInvalid, "this path takes the streams of syncers: HTTP/1.1 with Upgrade: %s", v1.RelayProtocol)
	}
	select {
	case <-s.drained:
		return nil, &fault.Error{Code: fault.CodeUnavailable, Message: "this instance is stopping", RetryAfter: time.Second}
	default:
	}
	ctx, cancel := context.WithTimeout(r.Context(), s.cfg.Timeout)
	defer cancel()
	h := r.Header
	connected := strings.Split(h.Get(v1.RelayConnectedHeader), ",")
	if len(connected) > maxConnected {
		return nil, tooManyConnected()
	}
	return s.cp.Streams.TakeStream(ctx, clusters.OpenStream{
		Cluster: h.Get(v1.RelayClusterHeader), UID: h.Get(v1.RelayUIDHeader), Proof: h.Get(v1.RelayProofHeader), Connected: connected,
	})
}

func tooManyConnected() error {
	return respond.Errorf(fault.CodeInvalid, "more than %d instances are connected", maxConnected)
}

func asksUpgrade(h http.Header) bool {
	return slices.ContainsFunc(h.Values("Connection"), func(line string) bool {
		return slices.ContainsFunc(strings.Split(line, ","), func(word string) bool {
			return strings.EqualFold(strings.TrimSpace(word), "upgrade")
		})
	})
}

// upgraded is a connection of which some bytes may have been read already.
type upgraded struct {
	net.Conn
	early *bufio.Reader
}

func (u *upgraded) Read(p []byte) (int, error) {
	if n := u.early.Buffered(); n > 0 {
		return u.early.Read(p[:min(n, len(p))])
	}
	return u.Conn.Read(p)
}
