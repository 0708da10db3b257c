package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/cenkalti/backoff/v5"

	v1 "github.com/oscarfed/oscarfed/api/v1"
)

// silence is how long a watch may say nothing before it is taken for dead: the
// control plane says something every 15 s.
const silence = 45 * time.Second

// maxWatchPause bounds the Retry-After that a watch follows: an outage may be over long before it.
const maxWatchPause = time.Minute

// errSilence is why a watch was given up.
var errSilence = errors.New("the watch was silent for too long")

// WatchOptions go with a watch.
type WatchOptions struct {
	// ClusterID says which service is meant when several have the name.
	ClusterID string
	// Since is the id of an event that was seen; what is not newer is not told.
	Since int64
	// Broken is called when the stream broke and is begun again; it may be nil.
	Broken func(err error)
}

// stopped is an error of the caller's own function.
type stopped struct{ error }

// WatchReplicas calls fn with a federation as one of its replicas sees it, at first
// as it is now and then after each change, with the id to go on after. A stream
// that breaks is begun again where it was, also when fn's error is Transient: it is called once more. It ends with
// ctx, with another error of fn, or with an *Error that asking again would not change, as not_found when the service
// is gone, or with that of Config.TokenOf. Before the first stream it tries as often as for any other request.
func (c *Client) WatchReplicas(ctx context.Context, service string, opts WatchOptions, fn func(view *v1.Replicas, id int64) error) error {
	return follow(ctx, c, watch[v1.Replicas]{
		what: service, path: replicasPath(service), query: onCluster(opts.ClusterID), event: "replicas", since: opts.Since, broken: opts.Broken, fn: fn,
	})
}

// watch is one stream of events of one kind.
type watch[T any] struct {
	client *Client
	// what is watched, for messages.
	what  string
	path  string
	query url.Values
	// event is the name of the events with a T.
	event  string
	since  int64
	broken func(error)
	fn     func(*T, int64) error
	// begun is called when a stream begins with all that there is, and whole once it has told all of it; both may be nil.
	begun func()
	whole func() error
	// connected says that there was a stream: a watch that had one connects again.
	connected bool
}

// follow keeps a watch going; see WatchReplicas.
func follow[T any](ctx context.Context, c *Client, start watch[T]) error {
	w := &start
	w.client = c
	if w.query == nil {
		w.query = url.Values{}
	}
	w.query.Set("watch", "true")
	pause := backoff.NewExponentialBackOff()
	pause.InitialInterval = 100 * time.Millisecond
	pause.MaxInterval = 10 * time.Second
	for failures := 1; ; failures++ {
		began := w.since
		err := w.once(ctx)
		if own, ok := errors.AsType[stopped](err); ok {
			return own.error
		}
		if ctx.Err() != nil {
			return fmt.Errorf("watch %s: %w", w.what, context.Cause(ctx))
		}
		e, answered := errors.AsType[*Error](err)
		_, unsent := errors.AsType[*unsentError](err)
		if (unsent || answered) && !Transient(err) || !w.connected && (failures >= c.cfg.Tries || answered && e.RetryAfter > maxPause) {
			return err
		}
		if w.broken != nil && err != nil {
			w.broken(err)
		}
		if w.since > began {
			pause.Reset()
		}
		next := pause.NextBackOff()
		if answered {
			next = max(next, min(e.RetryAfter, maxWatchPause))
		}
		select {
		case <-time.After(next):
		case <-ctx.Done():
		}
	}
}

// Transient says that a call failed by what passes: the API, or the issuer of a login, did not answer, or had no capacity.
// It is the rule by which a watch goes on, and by which a caller that looks again and again does.
func Transient(err error) bool {
	if unsent, ok := errors.AsType[*unsentError](err); ok {
		return !unsent.final()
	}
	e, ok := errors.AsType[*Error](err)
	return ok && (e.Err != nil || e.Problem.Code == v1.CodeUnknownOutcome || e.refused())
}

// once follows one stream until it breaks. A stream that the other side ended in
// good order is no error: it stops, or the watch has lasted its time.
func (w *watch[T]) once(ctx context.Context) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	dead := time.AfterFunc(silence, func() { cancel(errSilence) })
	defer dead.Stop()

	in := call{method: http.MethodGet, path: w.path, query: w.query, header: http.Header{}}
	if w.since > 0 {
		in.header.Set("Last-Event-ID", strconv.FormatInt(w.since, 10))
	}
	resp, err := w.client.stream(ctx, in, eventStreamType)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	w.connected = true
	all := w.since == 0
	if all && w.begun != nil {
		w.begun()
	}
	// own is what the caller's function answers; its time is not the stream's.
	own := func(err error) error {
		dead.Reset(silence)
		if err != nil && !Transient(err) {
			return stopped{err}
		}
		return err
	}
	events := newEventReader(resp.Body, func() { dead.Reset(silence) })
	for {
		event, err := events.next()
		if err != nil {
			return broken(ctx, w.path, err)
		}
		switch event.name {
		case w.event:
			view, err := decode[T](in.method, w.path, event.data)
			if err != nil {
				return stopped{err}
			}
			dead.Stop()
			if err := own(w.fn(view, event.id)); err != nil {
				return err
			}
			w.since = max(w.since, event.id)
		case "bookmark":
			mark, err := decode[v1.Bookmark](in.method, w.path, event.data)
			if err != nil {
				return stopped{err}
			}
			if all && w.whole != nil {
				dead.Stop()
				if err := own(w.whole()); err != nil {
					return err
				}
			}
			all = false
			w.since = mark.Revision
			w.query.Set("epoch", mark.Epoch)
		case "end":
			e := &Error{Method: in.method, Path: w.path}
			if err := json.Unmarshal(event.data, &e.Problem); err != nil || e.Problem.Code == "" {
				return stopped{fmt.Errorf("%s %s: the stream ended without a reason that this client knows: %q", in.method, w.path, excerpt(event.data))}
			}
			return e
		}
	}
}

// broken says why a stream ended before its end; nil when it was closed in good order.
func broken(ctx context.Context, path string, err error) error {
	switch {
	case errors.Is(err, errStreamEnd):
		return nil
	case errors.Is(err, errEventSize):
		return stopped{fmt.Errorf("GET %s: %w", path, err)}
	case ctx.Err() != nil:
		return fmt.Errorf("GET %s: %w", path, context.Cause(ctx))
	}
	return fmt.Errorf("GET %s: %w", path, err)
}
