package tracing

import (
	"context"
	"strings"

	"go.opentelemetry.io/otel/trace"
)

// RequestID is the id of the request that the span in ctx was made for; empty when it is not traced.
func RequestID(ctx context.Context) string {
	span := trace.SpanContextFromContext(ctx)
	if !span.IsValid() || !span.IsSampled() {
		return ""
	}
	return span.TraceID().String() + "-" + span.SpanID().String()
}

// spanOf is the span that a request's id names; not valid when it names none.
func spanOf(requestID string) trace.SpanContext {
	requestID = requestID[strings.LastIndexByte(requestID, '.')+1:]
	traceText, spanText, _ := strings.Cut(requestID, "-")
	traceID, err := trace.TraceIDFromHex(traceText)
	if err != nil {
		return trace.SpanContext{}
	}
	spanID, err := trace.SpanIDFromHex(spanText)
	if err != nil {
		return trace.SpanContext{}
	}
	return trace.NewSpanContext(trace.SpanContextConfig{TraceID: traceID, SpanID: spanID, TraceFlags: trace.FlagsSampled})
}
