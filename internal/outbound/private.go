package outbound

import (
	"net"
	"net/url"
)

// Loopback says whether a host is this machine: localhost, or a loopback address.
func Loopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// Private says whether a request to u cannot be read on its way: it goes by https, or by http to this
// machine.
func Private(u *url.URL) bool {
	return u.Scheme == "https" || u.Scheme == "http" && Loopback(u.Hostname())
}
