package manager

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"syscall"
)

// Op is a call to OSCAR, as reports name it.
type Op string

// The calls.
const (
	OpInfo         Op = "info"
	OpAdmits       Op = "admits"
	OpConfig       Op = "config"
	OpStatus       Op = "status"
	OpList         Op = "list"
	OpGet          Op = "get"
	OpCreate       Op = "create"
	OpUpdate       Op = "update"
	OpDelete       Op = "delete"
	OpDeployment   Op = "deployment"
	OpStop         Op = "stop"
	OpStart        Op = "start"
	OpJobs         Op = "jobs"
	OpSubmit       Op = "submit"
	OpDeleteJob    Op = "delete job"
	OpBuckets      Op = "buckets"
	OpBucket       Op = "bucket"
	OpDeleteBucket Op = "delete bucket"
	OpCreateBucket Op = "create bucket"
	OpHideBucket   Op = "hide bucket"
	OpVolume       Op = "volume"
	OpDeleteVolume Op = "delete volume"
)

// What an error keeps of an answer's text, and what it prints, in bytes. The text is kept
// longer because secrets must be removed from it before it is cut.
const (
	maxErrorBody = 4096
	maxErrorText = 500
)

// APIError is a call to OSCAR that did not end with a 2xx answer.
type APIError struct {
	Op Op
	// Service is the service, bucket or volume that the call was about; may be empty.
	Service string
	// Status is the HTTP status, or 0 when there was no answer.
	Status int
	// Body is the text of the answer, cut to 4096 bytes. It may hold what was sent.
	Body string
	// Err is the cause when there was no (readable) answer.
	Err error
}

// Error implements error.
func (e *APIError) Error() string {
	var b strings.Builder
	b.WriteString("OSCAR ")
	b.WriteString(string(e.Op))
	if e.Service != "" {
		fmt.Fprintf(&b, " %q", e.Service)
	}
	if e.Status == 0 {
		fmt.Fprintf(&b, ": no answer: %v", e.Err)
		return b.String()
	}
	fmt.Fprintf(&b, ": status %d", e.Status)
	if e.Body != "" {
		b.WriteString(": " + Cut(e.Body, maxErrorText))
	}
	if e.Err != nil {
		fmt.Fprintf(&b, ": %v", e.Err)
	}
	return b.String()
}

// Unwrap gives the cause.
func (e *APIError) Unwrap() error { return e.Err }

// Definite says that OSCAR refused: asking the same again gets the same answer.
// For a write it still has to be read back, since a refusal may mean that the
// thing is there already.
func (e *APIError) Definite() bool {
	if e.Status < 400 || e.Status >= 500 {
		return false
	}
	switch e.Status {
	case http.StatusRequestTimeout, http.StatusTooEarly, http.StatusTooManyRequests:
		return false
	}
	return true
}

// Unanswered says that a request may have reached OSCAR and that nothing is
// known of what became of it: a write may still take effect. A connection that
// could not be opened is not unanswered, it was never asked.
func (e *APIError) Unanswered() bool {
	return e.Status == 0 && !e.notSent()
}

// Silent says that OSCAR took a request and kept the connection, and did not answer in time, or before the
// caller gave it up: it is at work, for all that is known.
func (e *APIError) Silent() bool {
	return e.Unanswered() && (errors.Is(e.Err, context.DeadlineExceeded) || errors.Is(e.Err, context.Canceled))
}

// notSent says that no byte of the request can have reached OSCAR.
func (e *APIError) notSent() bool {
	if errors.Is(e.Err, errNotSent) {
		return true
	}
	op, ok := errors.AsType[*net.OpError](e.Err)
	return ok && op.Op == "dial"
}

// Unreachable says in a few words why there was no answer, without addresses. lasting says
// that waiting does not help: nothing listens, or the certificate is not accepted.
func (e *APIError) Unreachable() (why string, lasting bool) {
	_, certificate := errors.AsType[*tls.CertificateVerificationError](e.Err)
	_, alert := errors.AsType[tls.AlertError](e.Err)
	_, plain := errors.AsType[tls.RecordHeaderError](e.Err)
	_, name := errors.AsType[*net.DNSError](e.Err)
	switch {
	case errors.Is(e.Err, syscall.ECONNREFUSED):
		return "connection refused", true
	case certificate:
		return "its certificate is not accepted; look at --oscar-ca-file, and at when the certificate ends", true
	case alert, plain:
		return "it does not speak TLS as it should", true
	case name:
		return "its name is not known", false
	case errors.Is(e.Err, context.DeadlineExceeded):
		return "it takes requests, and is silent", false
	case e.Status != 0:
		return "what it answers is not what OSCAR sends", false
	}
	return "the connection broke off", false
}

// ErrNoPassword says that the client's own password could not be read.
var ErrNoPassword = errors.New("the password cannot be read")

// errNotSent marks failures before the connection is used.
var errNotSent = errors.New("the request was not sent")

// NotFound says that OSCAR answered 404.
func NotFound(err error) bool { return StatusOf(err) == http.StatusNotFound }

// StatusOf is the HTTP status that err carries, or 0.
func StatusOf(err error) int {
	if api, ok := errors.AsType[*APIError](err); ok {
		return api.Status
	}
	return 0
}

// bodyOf returns the text of an error's answer; empty when there is none.
func bodyOf(err error) string {
	if api, ok := errors.AsType[*APIError](err); ok {
		return api.Body
	}
	return ""
}

// Refused says that OSCAR does not accept the credential.
func Refused(err error) bool {
	s := StatusOf(err)
	return s == http.StatusUnauthorized || s == http.StatusForbidden
}
