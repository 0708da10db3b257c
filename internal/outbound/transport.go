// Package outbound owns how HTTP connections to OSCARs, issuers, endpoints and control planes are
// made, and which of them cannot be read on their way.
package outbound

import (
	"crypto/tls"
	"net/http"
	"time"
)

// Times of a connection. What a whole request may take is its caller's.
const (
	dialTimeout      = 10 * time.Second
	handshakeTimeout = 10 * time.Second
	keepAlive        = 30 * time.Second
	idleTimeout      = time.Minute
	// A connection of HTTP/2 on which nothing was received for pingAfter is pinged, and given up
	// pingTimeout later: about when a call that is tried elsewhere is.
	pingAfter   = 5 * time.Second
	pingTimeout = 5 * time.Second
)

// Transport makes connections over conf, nil for TLS 1.2 or newer with the system's
// roots, through the proxy that the environment names. The caller may change it before
// its first use.
//
// HTTP/2 keeps a connection after a request on it has timed out, and TCP takes a quarter
// of an hour to notice that its other end is gone without a word. So it is asked: every
// later request would wait on it in vain.
func Transport(conf *tls.Config) *http.Transport { return transport(conf, pingAfter, pingTimeout) }

func transport(conf *tls.Config, after, timeout time.Duration) *http.Transport {
	if conf == nil {
		conf = &tls.Config{MinVersion: tls.VersionTLS12}
	}
	return &http.Transport{
		Proxy:               http.ProxyFromEnvironment,
		DialContext:         Dial(nil).Within(dialTimeout),
		TLSClientConfig:     conf,
		TLSHandshakeTimeout: handshakeTimeout,
		MaxIdleConnsPerHost: 8,
		IdleConnTimeout:     idleTimeout,
		ForceAttemptHTTP2:   true,
		HTTP2:               &http.HTTP2Config{SendPingTimeout: after, PingTimeout: timeout},
	}
}
