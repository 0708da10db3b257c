package store

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

func TestTranslate(t *testing.T) {
	for _, c := range []struct {
		err error
		// want is nil where nothing of ours is meant.
		want error
		// applied is whether a write that ends so may have been applied.
		applied bool
	}{
		{rpctypes.ErrGRPCCompacted, ErrCompacted, false},
		{rpctypes.ErrGRPCFutureRev, ErrUnavailable, false},
		{rpctypes.ErrGRPCNoSpace, ErrFull, true},
		{rpctypes.ErrGRPCRequestTooLarge, ErrTooLarge, false},
		{rpctypes.ErrGRPCTooManyOps, ErrTooLarge, false},
		{status.Error(codes.ResourceExhausted, "trying to send message larger than max"), ErrTooLarge, false},
		{rpctypes.ErrGRPCRequestTooManyRequests, ErrUnavailable, false},
		{rpctypes.ErrGRPCLeaseNotFound, ErrSessionLost, false},
		{rpctypes.ErrGRPCPermissionDenied, ErrDenied, false},
		{rpctypes.ErrGRPCInvalidAuthToken, ErrDenied, false},
		{rpctypes.ErrGRPCUserEmpty, ErrDenied, false},
		{rpctypes.ErrGRPCAuthOldRevision, ErrDenied, false},
		{rpctypes.ErrGRPCNoLeader, ErrUnavailable, false},
		{rpctypes.ErrGRPCLeaderChanged, ErrUnavailable, true},
		{rpctypes.ErrGRPCTimeout, ErrUnavailable, true},
		{rpctypes.ErrGRPCTimeoutDueToLeaderFail, ErrUnavailable, true},
		{rpctypes.ErrGRPCTimeoutDueToConnectionLost, ErrUnavailable, true},
		{rpctypes.ErrGRPCStopped, ErrUnavailable, true},
		{status.Error(codes.Unavailable, "transport is closing"), ErrUnavailable, true},
		{status.Error(codes.Canceled, "context canceled"), ErrUnavailable, true},
		{context.DeadlineExceeded, ErrUnavailable, true},
		{context.Canceled, ErrUnavailable, true},
		{status.Error(codes.Unknown, "raft: stopped"), ErrUnavailable, true},
		{status.Error(codes.Unknown, "etcdserver: something else"), nil, true},
		{rpctypes.ErrGRPCCorrupt, nil, true},
		{errors.New("anything"), nil, true},
	} {
		// As gRPC gives it, as etcd's client gives it, and wrapped.
		for _, err := range []error{c.err, rpctypes.Error(c.err), fmt.Errorf("op: %w", rpctypes.Error(c.err))} {
			got := translate(err)
			if !errors.Is(got, err) {
				t.Errorf("%v lost its cause: %v", err, got)
			}
			if c.want != nil && !errors.Is(got, c.want) {
				t.Errorf("%v became %v, not %v", err, got, c.want)
			}
			if c.want == nil && got != err {
				t.Errorf("%v became %v", err, got)
			}
			if again := translate(got); again.Error() != got.Error() {
				t.Errorf("translated twice: %v", again)
			}
			if surelyNotApplied(err) == c.applied {
				t.Errorf("%v: may be applied is %v", err, !c.applied)
			}
		}
	}
	if translate(nil) != nil {
		t.Error("nil became an error")
	}
}

// TestAnAnswerOfHTTPAloneIsNone: a member of etcd that stops answers so for a moment.
func TestAnAnswerOfHTTPAloneIsNone(t *testing.T) {
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	server.EnableHTTP2 = true
	server.StartTLS()
	t.Cleanup(server.Close)
	client, err := clientv3.New(clientv3.Config{Endpoints: []string{server.URL}, TLS: server.Client().Transport.(*http.Transport).TLSClientConfig, Logger: zap.NewNop()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	if _, err := client.Get(t.Context(), "key"); !mayPass(translate(err)) {
		t.Errorf("a read does not ask again after %v", err)
	}
	if _, err := client.Put(t.Context(), "key", "value"); surelyNotApplied(err) || !errors.Is(translate(err), ErrUnavailable) {
		t.Errorf("a write is told of as %v", translate(err))
	}
}

func TestCheckRelease(t *testing.T) {
	for version, ok := range map[string]bool{
		"3.7.3": true, "3.7.1": true, "3.8.0": true, "4.0.0": true, "3.6.14": true, "3.6.20": true, "3.7.2+build": true,
		"3.7.0": false, "3.6.13": false, "3.5.30": false, "2.3.8": false, "3.7.1-rc.0": false, "": false, "new": false,
	} {
		if err := checkRelease(version); (err == nil) != ok || err != nil && !errors.Is(err, ErrOldServer) {
			t.Errorf("%q: %v", version, err)
		}
	}
}
