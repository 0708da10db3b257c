package relay

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"

	v1 "github.com/oscarfed/oscarfed/api/v1"
)

// sleepers has invocations that last until wake is called.
type sleepers struct {
	t       *testing.T
	handler http.Handler
	entered chan struct{}
	wake    func()
	asleep  sync.WaitGroup
}

func newSleepers(t *testing.T, limits Limits) *sleepers {
	t.Helper()
	ctx, wake := context.WithCancel(t.Context())
	s := &sleepers{t: t, entered: make(chan struct{}, 1000), wake: wake}
	site := &fakeSite{silent: true, answer: func(Outgoing) (*http.Response, error) {
		s.entered <- struct{}{}
		<-ctx.Done()
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

// One user who invokes as much as he can leaves room for all others.
func TestSleepingInvocationsOfOneUserLeaveRoomForOthers(t *testing.T) {
	s := newSleepers(t, Limits{})
	const all = 128
	got := 0
	for s.run("greedy") {
		got++
	}
	if got != all/2 {
		t.Errorf("a user alone got %d of %d slots, not half of them", got, all)
	}
	for i := range 5 {
		if user := fmt.Sprintf("user %d", i); !s.run(user) {
			t.Errorf("%s was refused while one user holds %d", user, got)
		}
	}
	if s.run("greedy") {
		t.Error("the user who holds half got one more")
	}
}

// The same holds for several, as far as there are slots: each later one gets half of what is left.
func TestSeveralGreedyUsersLeaveRoomForOneMore(t *testing.T) {
	s := newSleepers(t, Limits{})
	for i, want := range []int{64, 32, 16, 8, 4, 2, 1, 1, 0} {
		got := 0
		for s.run(fmt.Sprintf("user %d", i)) {
			got++
		}
		if got != want {
			t.Errorf("user %d got %d slots, want %d", i, got, want)
		}
	}
}

// What a syncer reads of its OSCAR for others is shared in the same way.
func TestLogsOfOneUserLeaveRoomForOthers(t *testing.T) {
	s := newSleepers(t, Limits{})
	for s.request(http.MethodGet, "/services/s/life/jobs/j", "greedy") {
	}
	if !s.request(http.MethodGet, "/services/s/life/jobs", "other") {
		t.Error("another user cannot list his jobs")
	}
}

// A control plane that does not say who asks yet is shared by services.
func TestWithoutAnAccountServicesShare(t *testing.T) {
	s := newSleepers(t, Limits{})
	for s.run("") {
	}
	if !s.run("other") {
		t.Error("another caller was refused")
	}
}
