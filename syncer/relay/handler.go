package relay

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	v1 "github.com/oscarfed/oscarfed/api/v1"
	"github.com/oscarfed/oscarfed/internal/share"
)

// Limits of requests. Zero values mean their defaults.
type Limits struct {
	// Admin says that the control plane's administrator may ask OSCAR's own paths with the
	// cluster's credentials: that lends him this OSCAR's root.
	Admin bool
	// Body of an invocation in bytes: 64 MiB.
	Body int64
	// Answer of an invocation, and a log, in bytes: 64 MiB. A longer one is cut off, and its
	// reader gets an error.
	Answer int64
	// Run is how long an invocation may take: 300 s, OSCAR's own limit.
	Run time.Duration
	// Ask is how long any other request may take: 60 s.
	Ask time.Duration
	// Runs, Logs and Asks bound the invocations, logs and other requests that run at the same time,
	// over all streams: 128, 16 and 8. Accounts share them by weight. OSCAR allows about two reads a
	// second. The callers of Runs and Logs read as slowly as they like, so these have their own.
	Runs, Logs, Asks int
}

func (l Limits) withDefaults() Limits {
	if l.Body <= 0 {
		l.Body = 64 << 20
	}
	if l.Answer <= 0 {
		l.Answer = 64 << 20
	}
	if l.Run <= 0 {
		l.Run = 300 * time.Second
	}
	if l.Ask <= 0 {
		l.Ask = time.Minute
	}
	if l.Runs <= 0 {
		l.Runs = v1.RelayRuns
	}
	if l.Logs <= 0 {
		l.Logs = v1.RelayLogs
	}
	if l.Asks <= 0 {
		l.Asks = 8
	}
	return l
}

// maxPage bounds OSCAR's page token in bytes; Kubernetes' tokens have a few hundred.
const maxPage = 4 << 10

// handler serves the requests that are allowed.
type handler struct {
	site             Site
	limits           Limits
	runs, logs, asks *share.Slots
	counted          func(what, outcome string)
}

func newHandler(site Site, limits Limits, counted func(what, outcome string)) http.Handler {
	h := &handler{
		site: site, limits: limits, counted: counted,
		runs: share.New(limits.Runs, v1.RelayWaiting), logs: share.New(limits.Logs, v1.RelayWaiting), asks: share.New(limits.Asks, v1.RelayWaiting),
	}
	mux := http.NewServeMux()
	mux.Handle("GET /services/{service}/{uid}/jobs", h.aboutJobs("jobs", h.asks, h.listJobs))
	mux.Handle("DELETE /services/{service}/{uid}/jobs", h.aboutJobs("delete_jobs", h.asks, h.deleteJobs))
	mux.Handle("GET /services/{service}/{uid}/jobs/{job}", h.aboutJobs("log", h.logs, h.jobLog))
	mux.Handle("DELETE /services/{service}/{uid}/jobs/{job}", h.aboutJobs("delete_job", h.asks, h.deleteJob))
	mux.Handle("POST /services/{service}/{uid}/run", h.limited("run", h.runs, limits.Run, h.run))
	mux.Handle("POST /services/{service}/{uid}/restart", h.limited("restart", h.asks, limits.Ask, h.restart))
	mux.HandleFunc("GET /config", h.userKeys)
	mux.HandleFunc("POST "+v1.RelayVotePath+"{service}", h.vote)
	h.forwardRoutes(mux)
	mux.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) {
		h.refuse(w, "other", &refusal{http.StatusForbidden, v1.RelayNotAllowed, "the syncer of this cluster passes nothing of this kind on"})
	})
	return mux
}

// refusal is an answer of the syncer itself, not of OSCAR.
type refusal struct {
	status int
	word   string
	text   string
}

func (h *handler) refuse(w http.ResponseWriter, what string, no *refusal) {
	h.counted(what, no.word)
	w.Header().Set(v1.RelayRefusedHeader, no.word)
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.WriteHeader(no.status)
	_, _ = io.WriteString(w, no.text)
}

// limited is a handler that takes a slot, bounds the time of a request, and sends what do makes
// of it to OSCAR.
func (h *handler) limited(what string, slots *share.Slots, limit time.Duration, do func(*http.Request) (Outgoing, *refusal)) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodHead { // a pattern of GET matches it
			h.refuse(w, what, &refusal{http.StatusForbidden, v1.RelayNotAllowed, "the syncer of this cluster passes no HEAD on"})
			return
		}
		give, no := takeSlot(slots, r)
		if no != nil {
			h.refuse(w, what, no)
			return
		}
		defer give()
		ctx, cancel := context.WithTimeout(r.Context(), limit)
		defer cancel()
		r = r.WithContext(ctx)
		out, no := do(r)
		if no != nil {
			h.refuse(w, what, no)
			return
		}
		h.forward(w, r, what, out)
	})
}

// aboutJobs is a handler for the Jobs of a service: it sends a request without a body to OSCAR,
// with the cluster's own credentials, if the service is ours.
func (h *handler) aboutJobs(what string, slots *share.Slots, do func(*http.Request) (Outgoing, *refusal)) http.Handler {
	return h.limited(what, slots, h.limits.Ask, func(r *http.Request) (Outgoing, *refusal) {
		out, no := do(r)
		if no != nil {
			return out, no
		}
		if no := h.ours(r); no != nil {
			return out, no
		}
		out.Path = append([]string{"system", "logs", r.PathValue("service")}, out.Path...)
		return out, nil
	})
}

// ours refuses a request about a service that is not here as ours.
func (h *handler) ours(r *http.Request) *refusal {
	err := h.site.Ours(r.Context(), r.PathValue("service"), r.PathValue("uid"))
	switch {
	case errors.Is(err, ErrNotOurs):
		return &refusal{http.StatusNotFound, v1.RelayNotOurs, err.Error()}
	case err != nil:
		return &refusal{http.StatusServiceUnavailable, v1.RelayAway, err.Error()}
	}
	return nil
}

func (h *handler) listJobs(r *http.Request) (Outgoing, *refusal) {
	out := Outgoing{Method: http.MethodGet}
	if page := r.URL.Query().Get("page"); page != "" {
		if !printable(page, maxPage) {
			return out, &refusal{http.StatusForbidden, v1.RelayNotAllowed, "the page is none of OSCAR's"}
		}
		out.Query = url.Values{"page": {page}}
	}
	return out, nil
}

func (h *handler) deleteJobs(r *http.Request) (Outgoing, *refusal) {
	out := Outgoing{Method: http.MethodDelete}
	if r.URL.Query().Get("all") == "true" {
		out.Query = url.Values{"all": {"true"}}
	}
	return out, nil
}

func (h *handler) jobLog(r *http.Request) (Outgoing, *refusal) {
	out, no := h.job(r, http.MethodGet)
	if r.URL.Query().Get("timestamps") == "true" {
		out.Query = url.Values{"timestamps": {"true"}}
	}
	return out, no
}

func (h *handler) deleteJob(r *http.Request) (Outgoing, *refusal) { return h.job(r, http.MethodDelete) }

// job names one Job. OSCAR puts the name into a label selector, in which a comma would be another
// condition, so only a valid name of a Job is accepted.
func (h *handler) job(r *http.Request, method string) (Outgoing, *refusal) {
	name := r.PathValue("job")
	if !v1.JobName(name) {
		return Outgoing{}, &refusal{http.StatusNotFound, v1.RelayNotAllowed, "this can be no name of a job"}
	}
	return Outgoing{Method: method, Path: []string{name}}, nil
}

func (h *handler) run(r *http.Request) (Outgoing, *refusal) {
	service, token := r.PathValue("service"), r.Header.Get(v1.RelayServiceTokenHeader)
	if !h.site.Invokes(service, r.PathValue("uid"), token) {
		return Outgoing{}, &refusal{http.StatusNotFound, v1.RelayNotOurs, ErrNotOurs.Error()}
	}
	if r.ContentLength > h.limits.Body {
		return Outgoing{}, tooLarge(h.limits.Body)
	}
	out := Outgoing{Method: http.MethodPost, Path: []string{"run", service}, Header: http.Header{}, Token: token, Length: r.ContentLength}
	copyHeader(out.Header, r.Header, invocationHeader)
	// A body that is too long is an error, not cut off.
	out.Body = http.MaxBytesReader(nil, r.Body, h.limits.Body)
	return out, nil
}

func tooLarge(limit int64) *refusal {
	return &refusal{http.StatusRequestEntityTooLarge, v1.RelayTooLarge, fmt.Sprintf("the body is larger than the limit of %d bytes", limit)}
}

// forward sends a request to OSCAR and streams its answer back. When the answer breaks off, the
// stream is reset, so that the reader does not take it for complete.
func (h *handler) forward(w http.ResponseWriter, r *http.Request, what string, out Outgoing) {
	resp, err := h.site.Send(r.Context(), out)
	if err != nil {
		switch {
		case isTooLarge(err):
			h.refuse(w, what, tooLarge(h.limits.Body))
		case errors.Is(err, ErrNotSent):
			h.refuse(w, what, &refusal{http.StatusServiceUnavailable, v1.RelayAway, "the cluster's OSCAR cannot be reached by its syncer"})
		default:
			h.refuse(w, what, &refusal{http.StatusGatewayTimeout, v1.RelayBroken, "the cluster's OSCAR was asked and has not answered"})
		}
		return
	}
	defer resp.Body.Close()
	if resp.StatusCode < http.StatusOK {
		h.refuse(w, what, &refusal{http.StatusGatewayTimeout, v1.RelayBroken, "the cluster's OSCAR has changed the protocol"})
		return
	}
	copyHeader(w.Header(), resp.Header, answerHeader)
	if resp.ContentLength >= 0 && resp.ContentLength <= h.limits.Answer {
		w.Header().Set("Content-Length", strconv.FormatInt(resp.ContentLength, 10))
	}
	w.WriteHeader(resp.StatusCode)
	if err := stream(w, resp.Body, h.limits.Answer); err != nil {
		h.counted(what, "broken")
		panic(http.ErrAbortHandler)
	}
	h.counted(what, "passed")
}

var errTooLong = errors.New("the answer is longer than may be passed on")

// stream copies at most limit bytes, and flushes after each read.
func stream(w http.ResponseWriter, from io.Reader, limit int64) error {
	flush := http.NewResponseController(w)
	// The reader gets the head at once, however long the body takes.
	if err := flush.Flush(); err != nil {
		return err
	}
	buf := make([]byte, 32<<10)
	for {
		n, err := from.Read(buf)
		if limit -= int64(n); limit < 0 {
			return errTooLong
		}
		if n > 0 {
			if _, err := w.Write(buf[:n]); err != nil {
				return err
			}
			if err := flush.Flush(); err != nil {
				return err
			}
		}
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		}
	}
}

func isTooLarge(err error) bool {
	_, ok := errors.AsType[*http.MaxBytesError](err)
	return ok
}

// invocationHeader says which headers an invoked function gets: those that describe the body,
// those that negotiate the answer, and CloudEvents in binary form. It never gets credentials.
func invocationHeader(name string) bool {
	switch name {
	case "Content-Type", "Content-Encoding", "Content-Language", "Accept", "Accept-Encoding", "Accept-Language":
		return true
	}
	return strings.HasPrefix(name, "Ce-")
}

// answerHeader says which headers of OSCAR's answer are returned: those that describe the body.
func answerHeader(name string) bool {
	switch name {
	case "Content-Type", "Content-Encoding", "Content-Language", "Content-Disposition", "Retry-After":
		return true
	}
	return strings.HasPrefix(name, "Ce-")
}

func copyHeader(to, from http.Header, which func(name string) bool) {
	for name, values := range from {
		if which(name) {
			to[name] = values
		}
	}
}

func printable(text string, most int) bool {
	return len(text) <= most && !strings.ContainsFunc(text, func(c rune) bool { return c <= ' ' || c > '~' })
}
