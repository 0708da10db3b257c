package tracing

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
)

const (
	traceID = "4bf92f3577b34da6a3ce929d0e0e4736"
	spanID  = "00f067aa0ba902b7"
	uuid    = "01980000-aaaa-7bbb-8ccc-dddddddddddd"
)

// TestWhichRequestsAreTraced: by their ids alone. What a caller chose is in front of the last dot
// and proves nothing.
func TestWhichRequestsAreTraced(t *testing.T) {
	for id, traced := range map[string]bool{
		traceID + "-" + spanID: true, "mine." + traceID + "-" + spanID: true, "a.b." + traceID + "-" + spanID: true,
		"": false, uuid: false, "mine." + uuid: false, traceID + "-" + spanID + "." + uuid: false,
		traceID: false, traceID + "-": false, traceID + "-" + spanID + "-01": false, "00-" + traceID + "-" + spanID + "-01": false,
		"00000000000000000000000000000000-" + spanID: false, traceID + "-0000000000000000": false,
	} {
		if of := spanOf(id); of.IsValid() != traced || traced && (of.TraceID().String() != traceID || of.SpanID().String() != spanID) {
			t.Errorf("%q: %v", id, of)
		}
	}
}

// opened is a Tracer whose spans are kept here.
func opened(t *testing.T, share float64) (*Tracer, *tracetest.InMemoryExporter) {
	t.Helper()
	kept := tracetest.NewInMemoryExporter()
	tracer := newTracer(Config{Share: share}, sdk.NewSimpleSpanProcessor(kept))
	t.Cleanup(tracer.Close)
	return tracer, kept
}

// TestTheShareIsNotTheCallers: who sends a traceparent raises no share, and may stay out.
func TestTheShareIsNotTheCallers(t *testing.T) {
	for _, of := range []struct {
		share  float64
		parent string
		want   int
	}{
		{0, "00-" + traceID + "-" + spanID + "-01", 0}, {0, "", 0},
		{1, "00-" + traceID + "-" + spanID + "-00", 0}, {1, "00-" + traceID + "-" + spanID + "-01", 1}, {1, "", 1}, {1, "nonsense", 1},
	} {
		tracer, kept := opened(t, of.share)
		var id string
		handler := tracer.Handler(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { id = RequestID(r.Context()) }),
			func(r *http.Request) bool { return r.URL.Path == "/health" }, func(*http.Request) string { return "named" })
		for _, path := range []string{"/health", "/"} {
			r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, nil)
			r.Header.Set("Traceparent", of.parent)
			handler.ServeHTTP(httptest.NewRecorder(), r)
		}
		spans := kept.GetSpans()
		if len(spans) != of.want || (id != "") != (of.want == 1) || of.want == 1 && spans[0].Name != "named" {
			t.Errorf("share %g and parent %q: %d spans, request %q", of.share, of.parent, len(spans), id)
		}
		// What goes on with a traced request is traced whatever the share is.
		if of.share == 0 {
			ctx, end := tracer.Continue(t.Context(), traceID+"-"+spanID, "step")
			_, endInner := Start(ctx, "inner")
			endInner(errors.New("it failed"))
			end(nil)
			tracer.Past(traceID+"-"+spanID, "past", time.Now().Add(-time.Second))
			if got := kept.GetSpans(); len(got) != 3 || got[0].Status.Description != "it failed" || got[1].Parent.SpanID().String() != spanID {
				t.Errorf("%+v", got)
			}
		}
	}
}

func TestWithoutATracerThereAreNoSpans(t *testing.T) {
	var tracer *Tracer
	ctx, end := tracer.Continue(t.Context(), traceID+"-"+spanID, "step")
	end(nil)
	_, end = Start(ctx, "inner")
	end(nil)
	Note(ctx)
	tracer.Past(traceID+"-"+spanID, "past", time.Now())
	tracer.Close()
	if RequestID(ctx) != "" {
		t.Error("there is a span")
	}
}

// TestALostCollectorIsWaitedForByNobody: its queue is full, and spans still end at once.
func TestALostCollectorIsWaitedForByNobody(t *testing.T) {
	stuck := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-stuck }))
	t.Cleanup(server.Close)
	t.Cleanup(func() { close(stuck) })
	tracer, err := Open(t.Context(), Config{Endpoint: server.URL, Share: 1, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	for range 10_000 {
		_, end := tracer.Continue(context.Background(), traceID+"-"+spanID, "step")
		end(nil)
	}
}

// TestCredentialsGoToTheCollectorAlone, wherever it wants them to go.
func TestCredentialsGoToTheCollectorAlone(t *testing.T) {
	led := make(chan struct{}, 100)
	other := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { led <- struct{}{} }))
	t.Cleanup(other.Close)
	asked := make(chan struct{}, 100)
	collector := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked <- struct{}{}
		http.Redirect(w, r, other.URL, http.StatusTemporaryRedirect)
	}))
	t.Cleanup(collector.Close)
	tracer, err := Open(t.Context(), Config{
		Endpoint: collector.URL, Share: 1, Logger: slog.New(slog.DiscardHandler), Header: http.Header{"X-Key": {"not-a-real-key"}},
	})
	if err != nil {
		t.Fatal(err)
	}
	tracer.Past(traceID+"-"+spanID, "step", time.Now())
	tracer.Close()
	if len(asked) == 0 || len(led) > 0 {
		t.Errorf("the collector was asked %d times, and the other server %d times", len(asked), len(led))
	}
}

func TestTheAddressOfACollector(t *testing.T) {
	for _, address := range []string{"", "collector:4318", "ftp://collector", "https://", "https://user:word@collector:4318", "https://collector?key=word", "%"} {
		if _, err := Open(t.Context(), Config{Endpoint: address}); err == nil {
			t.Errorf("%q is taken", address)
		}
	}
}
