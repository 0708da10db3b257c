package respond

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/oscarfed/oscarfed/controlplane/fault"
)

// A reader of the log took "etcd is not available: context canceled" for an outage of etcd.
func TestACallerWhoHungUpIsNoOutage(t *testing.T) {
	away := &fault.Error{Code: fault.CodeUnavailable, Message: "m", Cause: errors.New("etcd is not available: context canceled")}
	for _, hungUp := range []bool{false, true} {
		ctx, cancel := context.WithCancel(t.Context())
		if hungUp {
			cancel()
		}
		var log bytes.Buffer
		Fail(slog.New(slog.NewTextHandler(&log, nil)), httptest.NewRecorder(), httptest.NewRequestWithContext(ctx, http.MethodGet, "/", nil), away)
		cancel()
		want := "level=WARN"
		if hungUp {
			want = "level=INFO"
		}
		if said := log.String(); !strings.Contains(said, want) || strings.Contains(said, "caller_hung_up=true") != hungUp {
			t.Errorf("hung up %v: %s", hungUp, said)
		}
	}
}
