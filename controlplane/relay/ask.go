package relay

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	v1 "github.com/oscarfed/oscarfed/api/v1"
	"github.com/oscarfed/oscarfed/internal/share"
)

// Replica is one life of a service on a cluster.
type Replica struct {
	Cluster string
	// ClusterUID is the cluster's registration.
	ClusterUID string
	Service    string
	UID        string
	// Tenant asks: the syncer shares its slots among tenants.
	Tenant share.Tenant
	// Wait is for how long the syncer may let the request wait for a slot.
	Wait time.Duration
}

// Error says why there is no answer of a cluster's OSCAR.
type Error struct {
	// Word is the syncer's code (v1.RelayBusy, ...); empty without an answer of the syncer.
	Word string
	// Text is a sentence.
	Text string
	// Sent says that OSCAR may have been asked.
	Sent bool
	Err  error
}

func (e *Error) Error() string {
	if e.Err != nil {
		return fmt.Sprintf("%s: %v", e.Text, e.Err)
	}
	return e.Text
}

// Unwrap gives the cause.
func (e *Error) Unwrap() error { return e.Err }

// Invocation is a request to a service.
type Invocation struct {
	// Token is the service's own.
	Token  string
	Header http.Header
	// Body is read once the cluster has accepted the request, and is not closed. Length is -1
	// when it is not known.
	Body   io.Reader
	Length int64
}

// Run invokes a service. The answer is OSCAR's, whatever its status, and its body is
// streamed; the error is an *Error.
func (h *Hub) Run(ctx context.Context, r Replica, in Invocation) (*http.Response, error) {
	req, err := h.request(ctx, http.MethodPost, r, nil, "run")
	if err != nil {
		return nil, err
	}
	maps.Copy(req.Header, in.Header)
	req.Header.Set(v1.RelayServiceTokenHeader, in.Token)
	if in.Body != nil && in.Length != 0 {
		req.Header.Set("Expect", "100-continue")
		req.Body, req.ContentLength = io.NopCloser(in.Body), in.Length
	}
	return h.askInSlot(req, r, func(s *stream) *share.Slots { return s.runs })
}

// Jobs lists one page of the Jobs of a service.
func (h *Hub) Jobs(ctx context.Context, r Replica, page string) (*http.Response, error) {
	return h.askWithoutBody(ctx, http.MethodGet, r, values("page", page), "jobs")
}

// Log reads the output of a Job.
func (h *Hub) Log(ctx context.Context, r Replica, job string, timestamps bool) (*http.Response, error) {
	req, err := h.request(ctx, http.MethodGet, r, flag("timestamps", timestamps), "jobs", job)
	if err != nil {
		return nil, err
	}
	return h.askInSlot(req, r, func(s *stream) *share.Slots { return s.logs })
}

// DeleteJobs deletes the Jobs of a service that have succeeded, or all of them.
func (h *Hub) DeleteJobs(ctx context.Context, r Replica, all bool) (*http.Response, error) {
	return h.askWithoutBody(ctx, http.MethodDelete, r, flag("all", all), "jobs")
}

// DeleteJob deletes one Job.
func (h *Hub) DeleteJob(ctx context.Context, r Replica, job string) (*http.Response, error) {
	return h.askWithoutBody(ctx, http.MethodDelete, r, nil, "jobs", job)
}

// Restart restarts the pods of an exposed service.
func (h *Hub) Restart(ctx context.Context, r Replica) (*http.Response, error) {
	return h.askWithoutBody(ctx, http.MethodPost, r, nil, "restart")
}

// Config asks the OSCAR of a cluster for the configuration of a user; of the replica only the
// cluster and its uid count. The answer has only the user's own keys of MinIO.
func (h *Hub) Config(ctx context.Context, r Replica, userToken string) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://relay/config", http.NoBody)
	if err != nil {
		return nil, &Error{Text: "the request cannot be made", Err: err}
	}
	req.Header.Set(v1.RelayUserTokenHeader, userToken)
	return h.ask(req, r)
}

// Question asks a cluster whether it would take a service.
type Question struct {
	// Cluster and Service are where it would stand.
	Cluster, Service string
	v1.RelayQuestion
}

// Vote asks a cluster whether it would take a service, as the owner whose token it is, or as the
// administrator without one; of the replica the cluster, its uid and the service count.
func (h *Hub) Vote(ctx context.Context, r Replica, question v1.RelayQuestion, userToken string) (*http.Response, error) {
	body, err := json.Marshal(question)
	if err != nil {
		return nil, &Error{Text: "the question cannot be written", Err: err}
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://relay"+v1.RelayVotePath+url.PathEscape(r.Service), bytes.NewReader(body))
	if err != nil {
		return nil, &Error{Text: "the request cannot be made", Err: err}
	}
	if userToken != "" {
		req.Header.Set(v1.RelayUserTokenHeader, userToken)
	}
	return h.ask(req, r)
}

func values(name, value string) url.Values {
	if value == "" {
		return nil
	}
	return url.Values{name: {value}}
}

func flag(name string, on bool) url.Values {
	if !on {
		return nil
	}
	return url.Values{name: {"true"}}
}

func (h *Hub) askWithoutBody(ctx context.Context, method string, r Replica, query url.Values, path ...string) (*http.Response, error) {
	req, err := h.request(ctx, method, r, query, path...)
	if err != nil {
		return nil, err
	}
	return h.ask(req, r)
}

func (h *Hub) request(ctx context.Context, method string, r Replica, query url.Values, path ...string) (*http.Request, error) {
	var u strings.Builder
	u.WriteString("http://relay/services")
	for _, segment := range append([]string{r.Service, r.UID}, path...) {
		u.WriteString("/" + url.PathEscape(segment))
	}
	if len(query) > 0 {
		u.WriteString("?" + query.Encode())
	}
	req, err := http.NewRequestWithContext(ctx, method, u.String(), http.NoBody)
	if err != nil {
		return nil, &Error{Text: "the request cannot be made", Err: err}
	}
	return req, nil
}

// setTenant tells the syncer for whom it is asked.
func setTenant(h http.Header, r Replica) {
	if r.Tenant.Account == "" {
		return
	}
	h.Set(v1.RelayAccountHeader, r.Tenant.Account)
	if r.Tenant.Federation != "" {
		h.Set(v1.RelayFederationHeader, r.Tenant.Federation)
	}
	if w := r.Tenant.Weights; w != (share.Weights{}) {
		h.Set(v1.RelayWeightsHeader, fmt.Sprint(w.Account, w.Federation))
	}
	if r.Wait > 0 {
		h.Set(v1.RelayWaitHeader, strconv.Itoa(int(r.Wait.Seconds())))
	}
}

// maxText bounds what is read of a refusal in bytes.
const maxText = 1 << 10

// ask sends a request whose answer is read here at once.
func (h *Hub) ask(req *http.Request, r Replica) (*http.Response, error) {
	s, err := h.find(r.Cluster, r.ClusterUID)
	if err != nil {
		return nil, noStream(err)
	}
	return s.ask(req, r)
}

// askInSlot sends a request whose answer its caller reads, as slowly as he likes. The answer has a
// slot until its body is closed.
func (h *Hub) askInSlot(req *http.Request, r Replica, slots func(*stream) *share.Slots) (*http.Response, error) {
	s, err := h.find(r.Cluster, r.ClusterUID)
	if err != nil {
		return nil, noStream(err)
	}
	give, err := slots(s).Take(req.Context(), r.Tenant, r.Wait)
	if err != nil {
		return nil, &Error{Word: v1.RelayBusy, Text: "it is asked as much as it answers at a time", Err: err}
	}
	resp, err := s.ask(req, r)
	if err != nil {
		give()
		return nil, err
	}
	resp.Body = &slotBody{resp.Body, give}
	return resp, nil
}

// slotBody is a body whose slot is given back when it is closed.
type slotBody struct {
	io.ReadCloser
	give func()
}

func (b *slotBody) Close() error {
	defer b.give()
	return b.ReadCloser.Close()
}

func noStream(err error) *Error {
	return &Error{Text: "its syncer has no stream to this instance", Err: err}
}

// ask sends a request. A refusal of the syncer itself is an error; OSCAR's answers are not.
func (s *stream) ask(req *http.Request, r Replica) (*http.Response, error) {
	setTenant(req.Header, r)
	var wrote atomic.Bool
	req = req.WithContext(httptrace.WithClientTrace(req.Context(), &httptrace.ClientTrace{WroteHeaders: func() { wrote.Store(true) }}))
	resp, err := s.do(req)
	switch {
	case errors.Is(err, ErrNoStream):
		return nil, noStream(err)
	case err != nil:
		return nil, &Error{Text: "its stream broke off", Sent: wrote.Load(), Err: err}
	}
	word := resp.Header.Get(v1.RelayRefusedHeader)
	if word == "" {
		return resp, nil
	}
	defer resp.Body.Close()
	text, _ := io.ReadAll(io.LimitReader(resp.Body, maxText)) // as much as there is
	return nil, &Error{Word: word, Text: strings.ToValidUTF8(string(text), "?"), Sent: word == v1.RelayBroken}
}
