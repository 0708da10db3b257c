// Package client owns the typed Go client of the control plane's API. It knows
// how to send a request again and when not to: a GET always, anything else only
// with an Idempotency-Key. Every failure that an answer tells of, or that kept an
// answer away, is an *Error whose Problem has one of the codes of package v1.
package client
