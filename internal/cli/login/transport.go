package login

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/oscarfed/oscarfed/internal/openid"
)

// callTimeout bounds one request to an issuer, with its answer.
const callTimeout = 15 * time.Second

// observed is what the last answer of an issuer said besides its body.
type observed struct {
	now func() time.Time
	// ahead is how far the issuer's clock is ahead of this machine's, in nanoseconds.
	ahead  atomic.Int64
	status atomic.Int64
}

// whole is a transport that reads each answer, up to a bound, before it gives it out. The libraries
// send some requests without a context, and leave some bodies open: with it neither matters.
type whole struct {
	next     http.RoundTripper
	observed *observed
	// until is done when no answer is wanted any more.
	until context.Context
}

// RoundTrip implements http.RoundTripper.
func (t *whole) RoundTrip(r *http.Request) (*http.Response, error) {
	ctx, cancel := context.WithTimeout(r.Context(), callTimeout)
	defer cancel()
	defer context.AfterFunc(t.until, cancel)()
	resp, err := t.next.RoundTrip(r.WithContext(ctx))
	if err != nil {
		return nil, err
	}
	body, err := io.ReadAll(io.LimitReader(resp.Body, openid.MaxAnswer))
	if err := errors.Join(err, resp.Body.Close()); err != nil {
		return nil, err
	}
	resp.Body = io.NopCloser(bytes.NewReader(body))
	t.observed.status.Store(int64(resp.StatusCode))
	if date, err := http.ParseTime(resp.Header.Get("Date")); err == nil {
		t.observed.ahead.Store(int64(date.Sub(t.observed.now())))
	}
	return resp, nil
}
