package client

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	v1 "github.com/oscarfed/oscarfed/api/v1"
)

// Error is a request that did not do what was asked. Problem.Code says why; it
// is never empty. When no answer came, Problem.Status is 0 and the code is
// unavailable, or unknown_outcome when the control plane may have got a request
// that changes something.
type Error struct {
	Method, Path string
	Problem      v1.Problem
	// RetryAfter is the pause that the answer asks for; 0 when it does not.
	RetryAfter time.Duration
	// Location is where an outcome that is not known yet can be looked up.
	Location string
	// Err is what kept an answer away; nil when there was one.
	Err error
}

// Error implements error.
func (e *Error) Error() string {
	what := cmp.Or(e.Problem.Detail, e.Problem.Title)
	if e.Problem.Status == 0 {
		return fmt.Sprintf("%s %s: %s: %s", e.Method, e.Path, e.Problem.Title, what)
	}
	return fmt.Sprintf("%s %s: %d %s: %s", e.Method, e.Path, e.Problem.Status, e.Problem.Code, what)
}

// Unwrap gives what kept an answer away.
func (e *Error) Unwrap() error { return e.Err }

// Code is the problem's code.
func (e *Error) Code() string { return e.Problem.Code }

// answerError reads an answer that is an error. What does not come from a
// control plane (a proxy, another server) gets the code that fits its status.
func answerError(in call, resp *http.Response, body []byte) *Error {
	e := &Error{Method: in.method, Path: in.path, Location: resp.Header.Get("Location")}
	if s, err := strconv.Atoi(resp.Header.Get("Retry-After")); err == nil && s > 0 {
		e.RetryAfter = time.Duration(s) * time.Second
	}
	media, _, _ := strings.Cut(resp.Header.Get("Content-Type"), ";")
	if media == v1.ProblemType && json.Unmarshal(body, &e.Problem) == nil && e.Problem.Code != "" {
		e.Problem.Status = resp.StatusCode
		return e
	}
	code := codeOf(resp.StatusCode, in.reads())
	if resp.StatusCode < 400 && media != "application/json" { // a control plane does not answer so
		code = v1.CodeUnavailable
	}
	e.Problem = v1.Problem{
		Type:      v1.ProblemURN + code,
		Title:     "The answer is " + strings.TrimSpace(resp.Status),
		Status:    resp.StatusCode,
		Code:      code,
		Detail:    excerpt(body),
		Instance:  in.path,
		RequestID: resp.Header.Get("X-Request-ID"),
	}
	switch {
	case resp.StatusCode >= 300 && resp.StatusCode < 400 && e.Location != "": // http in place of https, or a page to log in at
		e.Problem.Title = "No control plane answers here: another server leads to " + excerpt([]byte(e.Location))
	case resp.StatusCode < 300 && media == "text/html":
		e.Problem.Title = "No control plane answers here: the answer is a page for people"
		e.Problem.Detail = ""
	case resp.StatusCode == http.StatusNotFound && e.Problem.Detail == "404 page not found": // so do Go's servers answer, ours too
		e.Problem.Title = "What answers here does not know " + in.method + " " + in.path + ": a control plane that is older than this client, or another server"
		e.Problem.Detail = ""
	case code == v1.CodeUnknownOutcome:
		e.Problem.Title = "The answer is " + strings.TrimSpace(resp.Status) + ", and not of the control plane; the change may have happened"
	case resp.StatusCode < 500 && media != "application/json":
		e.Problem.Title = "No control plane answers here: the answer is " + strings.TrimSpace(resp.Status) + " of another server"
	}
	return e
}

// codeOf is the code for a status that came without a problem document, as from a proxy.
func codeOf(status int, reads bool) string {
	switch status {
	case http.StatusBadRequest:
		return v1.CodeInvalid
	case http.StatusUnauthorized:
		return v1.CodeUnauthenticated
	case http.StatusForbidden:
		return v1.CodeForbidden
	case http.StatusConflict, http.StatusPreconditionFailed:
		return v1.CodeConflict
	case http.StatusRequestEntityTooLarge:
		return v1.CodeTooLarge
	case http.StatusTooManyRequests:
		return v1.CodeExhausted
	case http.StatusNotFound:
		// Only a control plane knows that there is nothing of a name: callers take not_found for deleted. This is a
		// proxy without its control plane, a wrong path in the endpoint, or a control plane that is too old.
		return v1.CodeUnavailable
	case http.StatusNotImplemented: // what a proxy does not know it has not passed on
		return v1.CodeInternal
	}
	switch {
	case status < http.StatusInternalServerError && status != http.StatusRequestTimeout:
		return v1.CodeInternal
	case reads:
		return v1.CodeUnavailable
	}
	// A proxy answers so also when its control plane took the request, and died before it answered: nginx and HAProxy with
	// 502, Envoy with 503, Traefik with 502 or 500, a CDN with 52x; or when that takes too long: Envoy with 408.
	return v1.CodeUnknownOutcome
}

// maxExcerpt in bytes of a text that is shown.
const maxExcerpt = 500

func excerpt(body []byte) string {
	s := strings.TrimSpace(string(body))
	if len(s) > maxExcerpt {
		s = s[:maxExcerpt] + "..."
	}
	return strings.ToValidUTF8(s, "?")
}
