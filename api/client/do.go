package client

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"reflect"
	"strings"
	"sync/atomic"
	"time"

	"github.com/cenkalti/backoff/v5"

	v1 "github.com/oscarfed/oscarfed/api/v1"
)

// maxAnswer in bytes of a body that is read.
const maxAnswer = 64 << 20

var errTooLarge = errors.New("the answer is too large")

// maxPause is the longest Retry-After that is followed; a longer one is returned to the caller as
// the error.
const maxPause = 10 * time.Second

// maxDoublings of what a try waits for the head of an answer.
const maxDoublings = 8

// call is one request.
type call struct {
	method, path string
	query        url.Values
	header       http.Header
	body         []byte
	// wait is how long the control plane may take on the caller's order.
	wait time.Duration
	// harmless says that nothing is changed, whatever the method.
	harmless bool
	// repeatable says that the caller takes the outcome of an earlier try for that of this one.
	repeatable bool
	// brief says that the control plane waits for nothing but etcd: an outcome that it does not know it may know
	// when it is asked again.
	brief bool
}

// patience is how long the n-th of some tries of a call waits for the head of its answer; 0 for as long as the try
// lasts. A control plane that is frozen or cut off answers nothing, and the next connection may lead to another one. One
// that is slow answers at the latest at its own deadline: so each try waits longer, and the last one is not cut short.
// Neither is what waits for an outcome.
func (c *Client) patience(in call, n, tries int) time.Duration {
	if n == tries || !in.reads() && !in.brief {
		return 0
	}
	return min(c.cfg.HeadTimeout<<min(n-1, maxDoublings), c.cfg.Timeout) + in.wait
}

// again says whether the call may be sent twice.
func (c call) again() bool {
	return c.reads() || c.repeatable || c.header.Get(v1.IdempotencyHeader) != ""
}

// reads says that the call changes nothing.
func (c call) reads() bool { return c.harmless || c.method == http.MethodGet }

// answer is what came back with a status below 300.
type answer struct {
	status int
	header http.Header
	body   []byte
}

// do sends a call, again where that is safe and promises something.
func (c *Client) do(ctx context.Context, in call) (*answer, error) {
	tries := 1
	if in.again() {
		tries = c.cfg.Tries
	}
	pause := backoff.NewExponentialBackOff()
	pause.InitialInterval = 100 * time.Millisecond
	pause.MaxInterval = 2 * time.Second
	var last, unknown error
	n := 0
	out, err := backoff.Retry(ctx, func() (*answer, error) {
		n++
		out, err := c.try(ctx, in, c.patience(in, n, tries))
		last = err
		e, ok := errors.AsType[*Error](err)
		if ok && e.Problem.Code == v1.CodeUnknownOutcome {
			unknown = err
		}
		switch {
		case err == nil:
			return out, nil
		case !ok || !worthAgain(e, in.brief):
			return nil, backoff.Permanent(err)
		case e.RetryAfter > 0:
			return nil, &backoff.RetryAfterError{Duration: e.RetryAfter}
		}
		return nil, err
	}, backoff.WithBackOff(pause), backoff.WithMaxTries(uint(tries)))
	if err != nil && unknown != nil && unserved(last) {
		return nil, unknown // what kept the last try away says nothing of an earlier one
	}
	if err != nil {
		return nil, last // and not that the pause after it was cut short
	}
	return out, nil
}

// unserved says whether a try ended before the control plane looked at what it asks for.
func unserved(err error) bool {
	if _, ok := errors.AsType[*unsentError](err); ok {
		return true
	}
	e, ok := errors.AsType[*Error](err)
	return ok && (e.refused() || e.Problem.Code == v1.CodeUnauthenticated)
}

// refused says whether it is the error of a try that changed nothing because it was not served.
func (e *Error) refused() bool {
	return e.Problem.Phase == "" && (e.Problem.Code == v1.CodeUnavailable || e.Problem.Code == v1.CodeExhausted)
}

// worthAgain says whether the same request may succeed in a moment: it got no answer, or the
// server had no capacity. An outcome, even a bad one, is final.
func worthAgain(e *Error, brief bool) bool {
	if e.Problem.Phase != "" || e.RetryAfter > maxPause {
		return false
	}
	switch e.Problem.Code {
	case v1.CodeUnavailable, v1.CodeExhausted:
		return true
	case v1.CodeUnknownOutcome:
		// No answer, of a proxy's control plane either; with one, the wait that was asked for is over.
		return brief || e.Err != nil || e.Problem.Status == http.StatusBadGateway || e.Problem.Status == http.StatusServiceUnavailable
	}
	return false
}

// try sends a call once. patience is how long it waits for the head of an answer; 0 for as long as the try lasts.
func (c *Client) try(ctx context.Context, in call, patience time.Duration) (*answer, error) {
	tryCtx, cancel := context.WithTimeout(ctx, c.cfg.Timeout+in.wait)
	defer cancel()
	var sent atomic.Bool
	resp, err := c.send(tryCtx, in, "application/json, "+v1.ProblemType, patience, &sent)
	if err != nil {
		return nil, c.noAnswer(ctx, in, sent.Load(), err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer+1))
	if err != nil {
		return nil, c.noAnswer(ctx, in, true, err)
	}
	if len(body) > maxAnswer {
		return nil, fmt.Errorf("%s %s: %w: more than %d bytes", in.method, in.path, errTooLarge, maxAnswer)
	}
	if resp.StatusCode >= 300 {
		return nil, answerError(in, resp, body)
	}
	if strings.HasPrefix(resp.Header.Get("Content-Type"), "text/html") {
		return nil, answerError(in, resp, nil)
	}
	if why := resp.Header.Get(v1.MissingHeader); why != "" && c.onMissing != nil {
		c.onMissing(why)
	}
	return &answer{status: resp.StatusCode, header: resp.Header, body: body}, nil
}

// send sends a call, and sets sent once the headers have gone out. It ends with an error when the head of the answer
// has not come by patience after the request has gone out; 0 sets no limit. A call that is refused for its token
// changed nothing: it is sent again with another one.
func (c *Client) send(ctx context.Context, in call, accept string, patience time.Duration, sent *atomic.Bool) (*http.Response, error) {
	req, err := c.request(ctx, in, accept, "")
	if err != nil {
		return nil, err
	}
	resp, err := c.exchange(req, patience, sent)
	if err != nil || resp.StatusCode != http.StatusUnauthorized || c.cfg.TokenOf == nil {
		return resp, err
	}
	refused := strings.TrimPrefix(req.Header.Get("Authorization"), bearer)
	again, err := c.request(ctx, in, accept, refused)
	if err != nil || again.Header.Get("Authorization") == req.Header.Get("Authorization") {
		return resp, nil //nolint:nilerr // the refusal says more than why there is no other token
	}
	_ = resp.Body.Close()
	return c.exchange(again, patience, sent)
}

// exchange sends a request and awaits the head of its answer; see send.
func (c *Client) exchange(req *http.Request, patience time.Duration, sent *atomic.Bool) (resp *http.Response, err error) {
	ctx, cancel := context.WithCancelCause(req.Context())
	defer func() {
		if err != nil { // else it ends with the context of the request, when the answer is read
			cancel(nil)
		}
	}()
	var answered atomic.Bool
	trace := &httptrace.ClientTrace{WroteHeaders: func() { sent.Store(true) }}
	if patience > 0 {
		trace.WroteRequest = func(httptrace.WroteRequestInfo) {
			time.AfterFunc(patience, func() {
				if !answered.Load() {
					cancel(fmt.Errorf("no answer within %s: %w", patience, context.DeadlineExceeded))
				}
			})
		}
	}
	if resp, err = c.http.Do(req.WithContext(httptrace.WithClientTrace(ctx, trace))); err != nil {
		return nil, cmp.Or(context.Cause(ctx), err)
	}
	answered.Store(true)
	return resp, nil
}

// request makes a call's request. refused is the token that was refused before.
func (c *Client) request(ctx context.Context, in call, accept, refused string) (*http.Request, error) {
	target := c.base + in.path
	if len(in.query) > 0 {
		target += "?" + in.query.Encode()
	}
	req, err := http.NewRequestWithContext(ctx, in.method, target, bytes.NewReader(in.body))
	if err != nil {
		return nil, &unsentError{fmt.Errorf("%s %s: %w", in.method, in.path, err)}
	}
	maps.Copy(req.Header, in.header)
	req.Header.Set("Accept", accept)
	if c.cfg.UserAgent != "" {
		req.Header.Set("User-Agent", c.cfg.UserAgent)
	}
	if in.body != nil && req.Header.Get("Content-Type") == "" {
		req.Header.Set("Content-Type", "application/json")
	}
	if err := c.authorize(req, refused); err != nil {
		return nil, &unsentError{err}
	}
	return req, nil
}

// stream sends a call whose answer, of a media type, is read as it comes; the caller closes it.
// Only ctx bounds it.
func (c *Client) stream(ctx context.Context, in call, want string) (*http.Response, error) {
	resp, err := c.send(ctx, in, want+", "+v1.ProblemType, 0, &atomic.Bool{})
	if err != nil {
		return nil, c.noAnswer(ctx, in, true, err)
	}
	media, _, _ := strings.Cut(resp.Header.Get("Content-Type"), ";")
	if resp.StatusCode == http.StatusOK && media == want {
		return resp, nil
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	if err != nil {
		return nil, c.noAnswer(ctx, in, true, err)
	}
	return nil, answerError(in, resp, body)
}

const eventStreamType = "text/event-stream"

// unsentError says why a request was not sent.
type unsentError struct{ err error }

func (e *unsentError) Error() string { return e.err.Error() }
func (e *unsentError) Unwrap() error { return e.err }

// final says that the request could not be sent a moment later either; see Config.TokenOf.
func (e *unsentError) final() bool {
	may, ok := errors.AsType[interface {
		error
		Temporary() bool
	}](e.err)
	return !ok || !may.Temporary()
}

// noAnswer is the error of a request without an answer: which side gave up, and whether the other
// side may have acted.
func (c *Client) noAnswer(ctx context.Context, in call, sent bool, err error) error {
	if ctx.Err() != nil {
		return fmt.Errorf("%s %s: %w", in.method, in.path, context.Cause(ctx))
	}
	if unsent, ok := errors.AsType[*unsentError](err); ok {
		return unsent
	}
	if wrapped, ok := errors.AsType[*url.Error](err); ok {
		err = wrapped.Err // it repeats the URL, with its query
	}
	p := v1.Problem{Code: v1.CodeUnavailable, Title: "The control plane cannot be reached", Detail: c.base + ": " + err.Error(), Instance: in.path}
	if strings.Contains(err.Error(), "malformed HTTP") {
		p.Title = "No control plane answers here"
	}
	if sent && !in.reads() {
		p.Code, p.Title = v1.CodeUnknownOutcome, "The control plane did not answer; the change may have happened"
	}
	p.Type = v1.ProblemURN + p.Code
	return &Error{Method: in.method, Path: in.path, Problem: p, Err: err}
}

// get reads one resource.
func get[T any](ctx context.Context, c *Client, path string, query url.Values) (*T, error) {
	out, err := c.do(ctx, call{method: http.MethodGet, path: path, query: query})
	if err != nil {
		return nil, err
	}
	return decode[T](http.MethodGet, path, out.body)
}

// send changes one resource and reads what became of it.
func send[T any](ctx context.Context, c *Client, method, path string, in any) (*T, error) {
	body, err := json.Marshal(in)
	if err != nil {
		return nil, fmt.Errorf("%s %s: %w", method, path, err)
	}
	out, err := c.do(ctx, call{method: method, path: path, body: body})
	if err != nil {
		return nil, err
	}
	return decode[T](method, path, out.body)
}

func decode[T any](method, path string, body []byte) (*T, error) {
	var v T
	err := json.Unmarshal(body, &v)
	if err == nil && hasNull(reflect.ValueOf(v), body) {
		err = errors.New("null in the place of an object")
	}
	if err != nil {
		return nil, fmt.Errorf("%s %s: the answer is not what this client knows: %w", method, path, err)
	}
	return &v, nil
}

// hasNull says whether null was decoded where a caller counts on an object: it leaves a value as it was.
func hasNull(v reflect.Value, body []byte) bool {
	if v.Kind() != reflect.Slice {
		return string(bytes.TrimSpace(body)) == "null"
	}
	for i := range v.Len() {
		if e := v.Index(i); e.Kind() == reflect.Pointer && e.IsNil() {
			return true
		}
	}
	return false
}
