package tracing

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"net/url"
	"strings"
	"time"

	"go.opentelemetry.io/contrib/instrumentation/net/http/otelhttp"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/metric/noop"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/sdk/resource"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
)

const (
	// scope names the instrumentation in each span.
	scope = "github.com/oscarfed/oscarfed"
	// tracesPath is where a collector takes traces, below its address.
	tracesPath = "v1/traces"
	// exportTimeout bounds one export, and closeTimeout the last one.
	exportTimeout, closeTimeout = 10 * time.Second, 5 * time.Second
	// maxError in bytes is what a span tells of an error.
	maxError = 1 << 10
)

// Config of a Tracer.
type Config struct {
	// Endpoint is the URL of a collector that takes OTLP over HTTP, without v1/traces.
	Endpoint string
	// Header is sent with each export: it may hold a credential.
	Header http.Header
	// Transport carries the exports; default http.DefaultTransport.
	Transport http.RoundTripper
	// Share of the requests that are traced, 0 to 1. What goes on with a traced request is
	// always traced.
	Share float64
	// Service and Version name this process, and Instance which one of them it is.
	Service, Version, Instance string
	Logger                     *slog.Logger
}

// Tracer makes the spans of one process and exports them in the background. Its queue is bounded:
// when the collector is slow or gone, spans are lost, and nothing waits.
type Tracer struct {
	provider *sdk.TracerProvider
	tracer   trace.Tracer
}

// Address reads the Endpoint of a Config.
func Address(endpoint string) (*url.URL, error) {
	u, err := url.Parse(endpoint)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		return nil, errors.New("a collector of traces has an address like https://collector:4318, without credentials")
	}
	return u, nil
}

// Open makes a Tracer. It does not connect yet.
func Open(ctx context.Context, cfg Config) (*Tracer, error) {
	address, err := Address(cfg.Endpoint)
	if err != nil {
		return nil, err
	}
	header := make(map[string]string, len(cfg.Header))
	for name := range cfg.Header {
		header[name] = cfg.Header.Get(name)
	}
	exporter, err := otlptracehttp.New(ctx,
		otlptracehttp.WithEndpointURL(address.JoinPath(tracesPath).String()), otlptracehttp.WithHeaders(header),
		otlptracehttp.WithHTTPClient(&http.Client{
			Transport: cfg.Transport, Timeout: exportTimeout,
			// Following would send credentials elsewhere.
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		}))
	if err != nil {
		return nil, err
	}
	return newTracer(cfg, sdk.NewBatchSpanProcessor(logged{exporter, cfg.Logger})), nil
}

func newTracer(cfg Config, processor sdk.SpanProcessor) *Tracer {
	provider := sdk.NewTracerProvider(
		sdk.WithSpanProcessor(processor), sdk.WithSampler(share(cfg.Share)),
		sdk.WithResource(resource.NewSchemaless(attribute.String("service.name", cfg.Service), attribute.String("service.version", cfg.Version),
			attribute.String("service.instance.id", cfg.Instance))))
	return &Tracer{provider: provider, tracer: provider.Tracer(scope)}
}

// Close exports what is left, for a few seconds at most.
func (t *Tracer) Close() {
	if t == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
	defer cancel()
	_ = t.provider.Shutdown(ctx) // a failed export was logged
}

// Handler makes the span of each request, but of those to skip: in the caller's trace, when its traceparent names
// one. After the request, name tells the name of the span.
func (t *Tracer) Handler(next http.Handler, skip func(*http.Request) bool, name func(*http.Request) string) http.Handler {
	if t == nil {
		return next
	}
	named := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer func() { trace.SpanFromContext(r.Context()).SetName(name(r)) }()
		next.ServeHTTP(w, r)
	})
	return otelhttp.NewHandler(named, "request", otelhttp.WithTracerProvider(t.provider), otelhttp.WithPropagators(propagation.TraceContext{}),
		otelhttp.WithMeterProvider(noop.NewMeterProvider()), otelhttp.WithFilter(func(r *http.Request) bool { return !skip(r) }))
}

// Transport makes a span of each call whose context is traced, and tells the callee of it.
func Transport(base http.RoundTripper) http.RoundTripper {
	traced := otelhttp.NewTransport(base, otelhttp.WithPropagators(propagation.TraceContext{}), otelhttp.WithMeterProvider(noop.NewMeterProvider()))
	return transport{base, traced}
}

type transport struct{ plain, traced http.RoundTripper }

func (t transport) RoundTrip(r *http.Request) (*http.Response, error) {
	if trace.SpanFromContext(r.Context()).IsRecording() {
		return t.traced.RoundTrip(r)
	}
	return t.plain.RoundTrip(r)
}

// CloseIdleConnections is what http.Client.CloseIdleConnections looks for.
func (t transport) CloseIdleConnections() {
	if c, ok := t.plain.(interface{ CloseIdleConnections() }); ok {
		c.CloseIdleConnections()
	}
}

// Continue makes a span of what is done for the request of a record. The caller calls end with how
// it ended.
func (t *Tracer) Continue(ctx context.Context, requestID, name string, attributes ...attribute.KeyValue) (spanned context.Context, end func(error)) {
	of := spanOf(requestID)
	if t == nil || !of.IsValid() {
		return ctx, func(error) {}
	}
	ctx, span := t.tracer.Start(trace.ContextWithSpanContext(ctx, of), name, trace.WithAttributes(attributes...))
	return ctx, ending(span)
}

// Past makes the span of what was done for the request of a record since began, and has ended well.
func (t *Tracer) Past(requestID, name string, began time.Time, attributes ...attribute.KeyValue) {
	of := spanOf(requestID)
	if t == nil || !of.IsValid() {
		return
	}
	_, span := t.tracer.Start(trace.ContextWithSpanContext(context.Background(), of), name, trace.WithTimestamp(began), trace.WithAttributes(attributes...))
	span.End()
}

// Start makes a span inside of the one in ctx; where there is none, it makes none.
func Start(ctx context.Context, name string, attributes ...attribute.KeyValue) (spanned context.Context, end func(error)) {
	within := trace.SpanFromContext(ctx)
	if !within.IsRecording() {
		return ctx, func(error) {}
	}
	ctx, span := within.TracerProvider().Tracer(scope).Start(ctx, name, trace.WithAttributes(attributes...))
	return ctx, ending(span)
}

// Note adds attributes to the span in ctx.
func Note(ctx context.Context, attributes ...attribute.KeyValue) {
	trace.SpanFromContext(ctx).SetAttributes(attributes...)
}

func ending(span trace.Span) func(error) {
	return func(err error) {
		if err != nil {
			text := err.Error()
			span.SetStatus(codes.Error, strings.ToValidUTF8(text[:min(len(text), maxError)], ""))
		}
		span.End()
	}
}

// share samples that share of the requests. Whether a caller's own trace is sampled does not count,
// or strangers could fill the collector; one that says it is not is left out.
type share float64

func (s share) ShouldSample(p sdk.SamplingParameters) sdk.SamplingResult {
	parent := trace.SpanContextFromContext(p.ParentContext)
	result := sdk.SamplingResult{Decision: sdk.Drop, Tracestate: parent.TraceState()}
	ours := parent.IsValid() && !parent.IsRemote()
	if parent.IsValid() && !parent.IsSampled() {
		return result
	}
	if ours || rand.Float64() < float64(s) { //nolint:gosec // no secret
		result.Decision = sdk.RecordAndSample
	}
	return result
}

func (s share) Description() string { return fmt.Sprintf("Share{%g}", float64(s)) }

// logged is an exporter whose failures are logged here, and not by the library.
type logged struct {
	sdk.SpanExporter
	log *slog.Logger
}

func (l logged) ExportSpans(ctx context.Context, spans []sdk.ReadOnlySpan) error {
	if err := l.SpanExporter.ExportSpans(ctx, spans); err != nil {
		l.log.Warn("traces were not exported; they are lost", "spans", len(spans), "error", err)
	}
	return nil
}
