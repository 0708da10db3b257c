package server

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/oscarfed/oscarfed/api/server/respond"
	"github.com/oscarfed/oscarfed/controlplane/fault"
	"github.com/oscarfed/oscarfed/controlplane/identity"
	"github.com/oscarfed/oscarfed/controlplane/runs"
)

// Invocations are the use cases of what members do at once: a service is invoked, and its
// answer awaited; its pods are restarted.
type Invocations interface {
	Restart(ctx context.Context, caller identity.Caller, in runs.LogTarget) (missing []string, err error)
	Invoke(ctx context.Context, caller identity.Caller, req runs.Request) (*runs.Answer, error)
}

const (
	runPrefix = "/run/"
	runRoute  = runPrefix + "{service}"
	// maxRunBody and maxRunAnswer in bytes.
	maxRunBody   = 64 << 20
	maxRunAnswer = 64 << 20
	// runTimeout is OSCAR's own limit of a request.
	runTimeout = 300 * time.Second
	// clusterHeader names the cluster that an answer comes from.
	clusterHeader = "Oscarfed-Cluster"
)

// streamed bounds a request whose answer is streamed. Its body gets no longer time here: the
// caller is not known yet.
func (s *Server) streamed(limit time.Duration) func(http.Handler) http.Handler {
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			// Not supported outside a real server, where no client is slow.
			_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(limit + writeSlack))
			ctx, cancel := context.WithTimeout(r.Context(), limit)
			defer cancel()
			next.ServeHTTP(w, r.WithContext(ctx))
		})
	}
}

// runService answers POST /run/{service}: what the function answers, as it is.
func (s *Server) runService(w http.ResponseWriter, r *http.Request) error {
	if r.ContentLength > maxRunBody {
		return respond.Errorf(fault.CodeTooLarge, "the body is larger than the limit of %d bytes", maxRunBody)
	}
	control := http.NewResponseController(w)
	end := time.Now().Add(runTimeout)
	_ = control.SetReadDeadline(end) // as long as the answer may take
	body := &forwardedBody{body: r.Body, control: control, end: end, reading: make(chan struct{}, 1)}
	defer body.stop()
	req := runs.Request{
		Service: pathParam(r, "service"), ClusterID: r.URL.Query().Get("cluster_id"), Header: http.Header{}, Body: body, Length: r.ContentLength,
	}
	for name, values := range r.Header {
		if passedOn(name) {
			req.Header[name] = values
		}
	}
	answer, err := s.cp.Invocations.Invoke(r.Context(), respond.StateOf(r).Caller, req)
	if tooLarge, ok := errors.AsType[*http.MaxBytesError](err); ok {
		return respond.Errorf(fault.CodeTooLarge, "the body is larger than the limit of %d bytes", tooLarge.Limit)
	}
	if err != nil {
		return err
	}
	if r.ProtoMajor == 1 && !body.whole.Load() {
		// A function that begins to answer before it has read everything is let. What is
		// left of the body stands where the next request would.
		_ = control.EnableFullDuplex()
		w.Header().Set("Connection", "close")
	}
	return s.passAnswer(w, r, answer)
}

// passedOn says which headers of an invocation a function sees, and which of its answer the
// caller: what the body is, what is wanted, and CloudEvents in binary form. No credentials are
// among them.
func passedOn(name string) bool {
	switch name {
	case "Content-Type", "Content-Encoding", "Content-Language", "Content-Disposition", "Accept", "Accept-Encoding", "Accept-Language":
		return true
	}
	return strings.HasPrefix(name, "Ce-")
}

// passAnswer streams an answer. One that breaks off is broken here, too: it is not taken
// for a whole one.
func (s *Server) passAnswer(w http.ResponseWriter, r *http.Request, answer *runs.Answer) error {
	defer answer.Body.Close()
	h := w.Header()
	for name, values := range answer.Header {
		if passedOn(name) {
			h[name] = values
		}
	}
	h.Set(clusterHeader, answer.ClusterID)
	if answer.Length >= 0 && answer.Length <= maxRunAnswer {
		h.Set("Content-Length", strconv.FormatInt(answer.Length, 10))
	}
	respond.StateOf(r).Passed = true
	w.WriteHeader(answer.Status)
	end, _ := r.Context().Deadline() // streamed has set one
	if err := pour(w, answer.Body, maxRunAnswer, end.Add(writeSlack)); err != nil {
		s.log.Warn("an answer was broken off", "cluster", answer.ClusterID, "error", err)
		panic(http.ErrAbortHandler)
	}
	return nil
}

// pour copies at most limit bytes until end, and what there is at once. It fails when a piece is not
// read in time.
func pour(w http.ResponseWriter, from io.Reader, limit int64, end time.Time) error {
	control := http.NewResponseController(w)
	// The head is an answer already, however long the body takes.
	if err := control.Flush(); err != nil && !errors.Is(err, errors.ErrUnsupported) {
		return err
	}
	buf := make([]byte, 32<<10)
	for {
		n, err := from.Read(buf)
		if limit -= int64(n); limit < 0 {
			return fmt.Errorf("it is longer than %d bytes", maxRunAnswer)
		}
		if n > 0 {
			_ = control.SetWriteDeadline(stillUntil(end))
			if _, err := w.Write(buf[:n]); err != nil {
				return err
			}
			if err := control.Flush(); err != nil && !errors.Is(err, errors.ErrUnsupported) {
				return err
			}
			_ = control.SetWriteDeadline(end) // a function may be silent: HTTP/2 would end its answer
		}
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		}
	}
}
