package apitest

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/getkin/kin-openapi/openapi3filter"
	"github.com/getkin/kin-openapi/routers"
	"github.com/getkin/kin-openapi/routers/gorillamux"

	"github.com/oscarfed/oscarfed/api"
	"github.com/oscarfed/oscarfed/api/server/middleware"
)

// mayBeEmpty marks a response whose body may be left out although it is described.
const mayBeEmpty = "x-may-be-empty"

// Handler passes requests to next and fails t when an answer does not conform.
func Handler(t testing.TB, next http.Handler) http.Handler {
	t.Helper()
	return newChecker(t).Handler(t, next)
}

// Handler is the function of that name for a description that was read before.
func (c *Checker) Handler(t testing.TB, next http.Handler) http.Handler {
	t.Helper()
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		rec := &recorder{ResponseWriter: w, status: http.StatusOK}
		next.ServeHTTP(rec, r)
		c.report(t, r, rec.status, rec.Header(), rec.body.Bytes())
	})
}

// Transport passes requests to next, or to http.DefaultTransport when it is nil,
// and fails t when an answer does not conform. It reads whole answers, but for
// streams of events: of those it checks the head only.
func Transport(t testing.TB, next http.RoundTripper) http.RoundTripper {
	t.Helper()
	if next == nil {
		next = http.DefaultTransport
	}
	return &transport{t: t, next: next, checker: newChecker(t)}
}

type transport struct {
	t       testing.TB
	next    http.RoundTripper
	checker *Checker
}

// RoundTrip implements http.RoundTripper.
func (tr *transport) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := tr.next.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	if isStream(resp.Header) {
		tr.checker.report(tr.t, r, resp.StatusCode, resp.Header, nil)
		return resp, nil
	}
	body, err := io.ReadAll(resp.Body)
	if closeErr := resp.Body.Close(); err == nil {
		err = closeErr
	}
	if err != nil {
		return nil, err
	}
	resp.Body = io.NopCloser(bytes.NewReader(body))
	tr.checker.report(tr.t, r, resp.StatusCode, resp.Header, body)
	return resp, nil
}

// Checker compares answers with the description.
type Checker struct {
	router  routers.Router
	schemas openapi3.Schemas
}

// NewChecker gives the description, which is read once and never changes.
func NewChecker() (*Checker, error) { return theChecker() }

var theChecker = sync.OnceValues(func() (*Checker, error) {
	doc, err := openapi3.NewLoader().LoadFromData([]byte(api.OpenAPI))
	if err != nil {
		return nil, fmt.Errorf("openapi.yaml: %w", err)
	}
	router, err := gorillamux.NewRouter(doc)
	if err != nil {
		return nil, fmt.Errorf("openapi.yaml: %w", err)
	}
	return &Checker{router: router, schemas: doc.Components.Schemas}, nil
})

func newChecker(t testing.TB) *Checker {
	t.Helper()
	c, err := NewChecker()
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func (c *Checker) report(t testing.TB, r *http.Request, status int, header http.Header, body []byte) {
	t.Helper()
	if err := c.Check(r, status, header, body); err != nil {
		t.Errorf("%s %s answered %d, which does not conform to openapi.yaml: %v\nbody: %.500q", r.Method, r.URL.Path, status, err, body)
	}
}

// Check says how an answer does not conform; nil when it does.
func (c *Checker) Check(r *http.Request, status int, header http.Header, body []byte) error {
	if header.Get(middleware.RequestIDHeader) == "" {
		return errors.New("no " + middleware.RequestIDHeader)
	}
	if r.Method == http.MethodOptions && r.Header.Get("Access-Control-Request-Method") != "" {
		return nil // answered by CORS for all paths alike
	}
	route, params, err := c.router.FindRoute(described(r))
	if err != nil {
		if status == http.StatusNotFound && string(body) == "404 page not found" {
			return nil
		}
		if status == http.StatusNotImplemented {
			return nil // what an OSCAR has: info.description
		}
		return fmt.Errorf("it is not described: %w", err)
	}
	response := route.Operation.Responses.Status(status)
	if response == nil || response.Value == nil {
		return errors.New("this status is not described")
	}
	if names := undescribed(response.Value, header); len(names) > 0 {
		return fmt.Errorf("headers that are not described: %s", strings.Join(names, ", "))
	}
	input := &openapi3filter.ResponseValidationInput{
		RequestValidationInput: &openapi3filter.RequestValidationInput{Request: r, PathParams: params, Route: route},
		Status:                 status,
		Header:                 header,
		Options:                &openapi3filter.Options{MultiError: true},
	}
	if isStream(header) {
		content := response.Value.Content[streamType]
		if content == nil {
			return errors.New("it is a stream of events, and none is described")
		}
		if err := c.checkEvents(content, body); err != nil {
			return err
		}
		input.Options.ExcludeResponseBody = true
	} else if len(body) == 0 {
		empty := response.Value.Extensions[mayBeEmpty] == true || len(response.Value.Content) == 0 || r.Method == http.MethodHead
		if !empty {
			return errors.New("the body is empty")
		}
		input.Options.ExcludeResponseBody = true
	} else if len(response.Value.Content) == 0 {
		return errors.New("there is a body, and none is described")
	}
	input.SetBodyBytes(body)
	return openapi3filter.ValidateResponse(r.Context(), input)
}

// ofAnyAnswer are the headers that need no description: HTTP and browsers know them, or a function has sent
// them (Ce-, of CloudEvents).
var ofAnyAnswer = []string{
	"Accept-Ranges", "Access-Control-", "Cache-Control", "Ce-", "Connection", "Content-", "Cross-Origin-", "Date", "ETag", "Location", "Referrer-Policy",
	"Retry-After", "Upgrade", "Vary", "Warning", "WWW-Authenticate", "X-Accel-Buffering", "X-Content-Type-Options", middleware.RequestIDHeader,
}

// undescribed are the headers of an answer that its description lacks.
func undescribed(response *openapi3.Response, header http.Header) (out []string) {
	for name := range header {
		known := slices.ContainsFunc(ofAnyAnswer, func(prefix string) bool { return strings.HasPrefix(name, http.CanonicalHeaderKey(prefix)) })
		for described := range response.Headers {
			known = known || http.CanonicalHeaderKey(described) == name
		}
		if !known {
			out = append(out, name)
		}
	}
	slices.Sort(out)
	return out
}

// described is the request as the description has it: HEAD is GET, and a
// trailing slash is not there.
func described(r *http.Request) *http.Request {
	out := r.Clone(r.Context())
	if out.Method == http.MethodHead {
		out.Method = http.MethodGet
	}
	if p := out.URL.Path; len(p) > 1 {
		out.URL.Path = strings.TrimSuffix(p, "/")
		out.URL.RawPath = strings.TrimSuffix(out.URL.RawPath, "/")
	}
	return out
}

// recorder keeps a copy of an answer while it passes through.
type recorder struct {
	http.ResponseWriter
	status int
	wrote  bool
	body   bytes.Buffer
}

func (r *recorder) WriteHeader(status int) {
	if !r.wrote {
		r.status, r.wrote = status, true
	}
	r.ResponseWriter.WriteHeader(status)
}

func (r *recorder) Write(p []byte) (int, error) {
	r.wrote = true
	r.body.Write(p)
	return r.ResponseWriter.Write(p)
}

// Unwrap lets http.ResponseController reach the connection.
func (r *recorder) Unwrap() http.ResponseWriter { return r.ResponseWriter }
