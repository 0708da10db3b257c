// Package middleware owns what requests pass before their handler: forwarding headers of proxies,
// request ids, the access log, metrics, recovery from panics, what browsers may send, and rate
// limits. Package server says who the caller is.
package middleware
