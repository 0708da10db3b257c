package server

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/oscarfed/oscarfed/api/oscar"
	"github.com/oscarfed/oscarfed/api/server/respond"
	"github.com/oscarfed/oscarfed/controlplane/fault"
	"github.com/oscarfed/oscarfed/controlplane/view"
)

const lastEventIDHeader = "Last-Event-ID"

const (
	// pingEvery is shorter than the 30 to 60 s after which proxies close a silent
	// connection.
	pingEvery = 15 * time.Second
	// maxWatch is how long one watch lasts. Its client resumes it, and shows its
	// credentials again.
	maxWatch = time.Hour
	// askWho lies between two looks whether its caller would be let in now.
	askWho = time.Minute
)

// The events of a watch.
const (
	// eventReplicas has the federation as the replica sees it.
	eventReplicas = "replicas"
	// eventJob has a job.
	eventJob = "job"
	// eventEnd has the problem after which nothing more comes. A stream that ends
	// without it is to be resumed.
	eventEnd = "end"
)

var errWatchOver = errors.New("the watch is over")

// watching says whether the answer is a stream of events.
func watching(r *http.Request) bool {
	switch respond.RouteOf(r) {
	case watchRoute:
		return r.Method == http.MethodGet
	case replicasRoute, jobsRoute, jobRoute:
		return r.Method == http.MethodGet && r.URL.Query().Get("watch") == "true"
	}
	return false
}

// watchReplicas answers GET /system/replicas/{service}?watch=true: the federation
// as that replica sees it now, when it is newer than Last-Event-ID, and after each
// change. It ends also when the service is gone.
func (s *Server) watchReplicas(w http.ResponseWriter, r *http.Request) error {
	caller, service, cluster := respond.StateOf(r).Caller, pathParam(r, "service"), r.URL.Query().Get("cluster_id")
	since, err := lastEventID(r)
	if err != nil {
		return err
	}
	return s.watch(w, r, stream{
		visible: func(ctx context.Context) error {
			_, err := s.cp.Federations.Replicas(ctx, caller, service, cluster)
			return err
		},
		follow: func(ctx context.Context, send func(event) error) error {
			return s.cp.Federations.WatchReplicas(ctx, caller, service, cluster, since, func(v *view.Replicas) error {
				return send(event{eventReplicas, v.StreamRevision, v.Wire(s.cfg.Now())})
			})
		},
	})
}

// event is one event of a stream; its id is a revision of the store.
type event struct {
	name string
	id   int64
	data any
}

// stream is what a stream of events shows.
type stream struct {
	// visible says whether there is something that the caller may watch.
	visible func(ctx context.Context) error
	// follow sends what there is and what comes, until ctx ends or send fails.
	follow func(ctx context.Context, send func(event) error) error
}

// watch answers with a stream. It ends when the client goes away or does not read,
// when follow ends, when this control plane stops, with the token that it was opened with
// or with what that is good for, and after maxWatch.
func (s *Server) watch(w http.ResponseWriter, r *http.Request, what stream) error {
	st := respond.StateOf(r)
	leave, err := s.watchers.enter(st.Caller.Account())
	if err != nil {
		return err
	}
	defer leave()
	// What is refused is refused with a status: within the stream there is none.
	if err := s.visible(r, what); err != nil {
		return err
	}
	st.Watch = true
	s.metrics.Watches.Inc()
	defer s.metrics.Watches.Dec()
	out, err := respond.NewEventStream(w)
	if err != nil {
		return nil // the client went away
	}

	var following sync.WaitGroup
	defer following.Wait()
	ctx, cancel := context.WithTimeoutCause(r.Context(), maxWatch, errWatchOver)
	defer cancel()
	ctx, expire := untilExpiry(ctx, st.Caller)
	defer expire()
	events, ended := make(chan event), make(chan error, 1)
	following.Go(func() {
		ended <- what.follow(ctx, func(e event) error {
			select {
			case events <- e:
				return nil
			case <-ctx.Done():
				return context.Cause(ctx)
			}
		})
	})
	if err := s.relay(ctx, st, out, events, ended); err != nil {
		_ = out.Event(eventEnd, 0, respond.ProblemOf(r, respond.AsError(r, err))) // the last word
		return nil
	}
	return nil
}

func (s *Server) visible(r *http.Request, what stream) error {
	ctx, cancel := context.WithTimeout(r.Context(), s.cfg.Timeout)
	defer cancel()
	return what.visible(ctx)
}

// relay writes what comes until there is a reason to stop. Its error is for the
// client: it is nil when the stream is to be resumed, here or elsewhere.
func (s *Server) relay(ctx context.Context, st *respond.State, stream *respond.EventStream, events <-chan event, ended <-chan error) error {
	ping := time.NewTicker(pingEvery)
	defer ping.Stop()
	who := time.NewTicker(askWho)
	defer who.Stop()
	for {
		var err error
		select {
		case e := <-events:
			err = stream.Event(e.name, e.id, e.data)
		case <-ping.C:
			err = stream.Ping()
		case <-who.C:
			if !st.StillIn() {
				return nil // resumed, it is refused with a status
			}
		case err := <-ended:
			if e, ok := errors.AsType[*fault.Error](err); ok && final(e.Code) {
				return e
			}
			if ctx.Err() == nil {
				s.log.LogAttrs(ctx, slog.LevelWarn, "a watch was cut", slog.Any("error", err))
			}
			return nil
		case <-s.drained:
			return nil
		case <-ctx.Done():
			return nil
		}
		if err != nil {
			return nil
		}
	}
}

// final says whether watching again would meet the same answer.
func final(code fault.Code) bool {
	switch code {
	case fault.CodeNotFound, fault.CodeForbidden, fault.CodeUnauthenticated, fault.CodeConflict, fault.CodeExpired:
		return true
	}
	return false
}

// lastEventID is the id of the last event that the client has seen; 0 when it has
// seen none.
func lastEventID(r *http.Request) (int64, error) {
	v := r.Header.Get(lastEventIDHeader)
	if v == "" {
		return 0, nil
	}
	id, err := strconv.ParseInt(v, 10, 64)
	if err != nil || id < 0 {
		return 0, fault.Invalid(oscar.Violation{
			Path: lastEventIDHeader, Rule: oscar.RuleType, Value: respond.Cut(v, 40),
			Message: "it is no id of an event of this stream; leave the header out to begin with the present state",
		})
	}
	return id, nil
}
