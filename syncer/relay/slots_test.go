package relay

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	v1 "github.com/oscarfed/oscarfed/api/v1"
	"github.com/oscarfed/oscarfed/internal/share"
)

// sleepers has invocations that last until wake is called.
type sleepers struct {
	t       *testing.T
	handler http.Handler
	// entered has the account of each invocation that begins to sleep, and end ends one.
	entered chan string
	end     chan struct{}
	wake    func()
	asleep  sync.WaitGroup
}

func newSleepers(t *testing.T, limits Limits) *sleepers {
	t.Helper()
	ctx, wake := context.WithCancel(t.Context())
	s := &sleepers{t: t, entered: make(chan string, 1000), end: make(chan struct{}), wake: wake}
	site := &fakeSite{silent: true, answer: func(out Outgoing) (*http.Response, error) {
		s.entered <- out.Header.Get("Ce-Account")
		select {
		case <-s.end:
		case <-ctx.Done():
		}
		return nil, ErrNotSent
	}}
	s.handler = newHandler(site, limits.withDefaults(), func(string, string) {})
	t.Cleanup(func() { wake(); s.asleep.Wait() })
	return s
}

// request invokes the service for an account, or asks for its log. It is true when that
// sleeps at OSCAR, and false when it was refused for being too much.
func (s *sleepers) request(method, path, account string) bool {
	s.t.Helper()
	r := httptest.NewRequest(method, "http://relay"+path, http.NoBody)
	r.Header = token("t")
	if account != "" {
		r.Header.Set(v1.RelayAccountHeader, account)
	}
	w, refused := httptest.NewRecorder(), make(chan struct{})
	s.asleep.Go(func() {
		s.handler.ServeHTTP(w, r)
		close(refused)
	})
	select {
	case <-s.entered:
		return true
	case <-refused:
		if w.Code != http.StatusServiceUnavailable || w.Header().Get(v1.RelayRefusedHeader) != v1.RelayBusy {
			s.t.Fatalf("it was refused with %d %v", w.Code, w.Header())
		}
		return false
	}
}

func (s *sleepers) run(account string) bool {
	s.t.Helper()
	return s.request(http.MethodPost, "/services/s/life/run", account)
}

// wait sends an invocation that waits for a slot, and returns once it waits, or sleeps at OSCAR.
func (s *sleepers) wait(account string) {
	s.t.Helper()
	r := httptest.NewRequest(http.MethodPost, "http://relay/services/s/life/run", http.NoBody)
	r.Header = token("t")
	r.Header.Set(v1.RelayAccountHeader, account)
	r.Header.Set(v1.RelayWaitHeader, "300")
	r.Header.Set("Ce-Account", account)
	s.asleep.Go(func() { s.handler.ServeHTTP(httptest.NewRecorder(), r) })
	synctest.Wait()
}

// One user who invokes as much as he can has all slots but those that are kept for others. The first invocation of
// another one gets one of these or, when they are taken, the first that is free, before those of his that wait.
func TestOneUsersInvocationsDelayAnothersByOneSlot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSleepers(t, Limits{})
		const all, kept = 128, 16
		got := 0
		for s.run("greedy") {
			got++
		}
		if got != all-kept {
			t.Errorf("a user alone got %d of %d slots", got, all)
		}
		for range v1.RelayWaiting {
			s.wait("greedy")
		}
		for i := range kept + 5 {
			user := fmt.Sprint("user ", i)
			s.wait(user)
			if i >= kept {
				s.end <- struct{}{}
			}
			if got := <-s.entered; got != user {
				t.Errorf("%s got the next slot, not %s", got, user)
			}
		}
	})
}

// What a syncer reads of its OSCAR for others is shared in the same way. Logs have slots of their
// own: their callers hold them for as long as they read.
func TestLogsOfOneUserDelayAnothersByOneSlot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const log, list = "/services/s/life/jobs/j", "/services/s/life/jobs"
		for taken, beside := range map[string]string{log: list, list: log} {
			s := newSleepers(t, Limits{})
			for s.request(http.MethodGet, taken, "greedy") {
			}
			s.end <- struct{}{}
			synctest.Wait()
			if !s.request(http.MethodGet, taken, "other") {
				t.Errorf("another user is not answered %s", taken)
			}
			if !s.request(http.MethodGet, beside, "other") {
				t.Errorf("beside %s another user is not answered %s", taken, beside)
			}
		}
	})
}

// What an older control plane, or a broken one, says is no reason to refuse a request.
func TestHeadersOfTenants(t *testing.T) {
	for _, test := range []struct {
		account, weights, wait string
		want                   share.Tenant
		waits                  time.Duration
	}{
		{"", "", "", share.Tenant{Account: "service life"}, 0},
		{"a", "2 0.5", "300", share.Tenant{Account: "a", Weights: share.Weights{Account: 2, Federation: 0.5}}, 5 * time.Minute},
		{"a", "2", "65535", share.Tenant{Account: "a"}, maxWait},
		{"a", "-1 NaN", "-1", share.Tenant{Account: "a"}, 0},
		{"a", "Inf 1", "100000", share.Tenant{Account: "a"}, 0},
	} {
		r := httptest.NewRequest(http.MethodPost, "http://relay/", http.NoBody)
		r.SetPathValue("uid", "life")
		r.Header.Set(v1.RelayAccountHeader, test.account)
		r.Header.Set(v1.RelayWeightsHeader, test.weights)
		r.Header.Set(v1.RelayWaitHeader, test.wait)
		if got, wait := tenantOf(r), waitOf(r); got != test.want || wait != test.waits {
			t.Errorf("%+v is %+v, %s", test, got, wait)
		}
	}
}
