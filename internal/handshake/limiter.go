package handshake

import (
	"log/slog"
	"net"
	"time"

	"golang.org/x/time/rate"

	"github.com/oscarfed/oscarfed/internal/connlimit"
)

const (
	// Timeout is how long a client may take to shake hands.
	Timeout = 5 * time.Second
	// refusalLog is the least time between two lines of the log on refused connections.
	refusalLog = time.Minute
)

// Limits of connections that have not shaken hands. Zero is the default.
type Limits struct {
	// Total of all; default 1024.
	Total int
	// PerAddress of one IP address; default 128. Many clients may stand behind one.
	PerAddress int
	// Timeout is how long a client of HTTP may take until it has sent the head of its
	// first request, TLS included; default 2 * Timeout.
	Timeout time.Duration
}

// Limiter counts connections that have not shaken hands. It is safe for concurrent use.
type Limiter struct {
	limits  Limits
	log     *slog.Logger
	tell    rate.Sometimes
	counted *connlimit.Limiter
}

// New makes a limiter that has counted nothing.
func New(limits Limits, log *slog.Logger) *Limiter {
	if limits.Total == 0 {
		limits.Total = 1024
	}
	if limits.PerAddress == 0 {
		limits.PerAddress = 128
	}
	if limits.Timeout == 0 {
		limits.Timeout = 2 * Timeout
	}
	return &Limiter{limits: limits, log: log, tell: rate.Sometimes{Interval: refusalLog}, counted: connlimit.New(limits.Total, limits.PerAddress)}
}

// Begin counts a connection until done is called, which may be repeated. When there are
// too many it is false: the connection has to be closed.
func (l *Limiter) Begin(remote net.Addr) (done func(), ok bool) {
	done, ok = l.counted.Begin(remote)
	if !ok {
		l.tell.Do(func() {
			l.log.Warn("connections are refused: too many have not shaken hands", "remote", connlimit.Host(remote),
				"limit", l.limits.Total, "limit_of_one_address", l.limits.PerAddress)
		})
	}
	return done, ok
}
