package wire

import (
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"
)

// hop is how long bytes take from one host to another of ForTest. Without it a question, its
// answer and what follows would happen at the same instant of virtual time.
const hop = 200 * time.Microsecond

// ForTest makes a network without faults for a test of virtual time. The end of the test closes it.
func ForTest(t testing.TB) *Network {
	t.Helper()
	n := New(1)
	n.AddRule("*", "*", Rule{Delay: hop})
	t.Cleanup(func() {
		if err := n.Close(); err != nil {
			t.Error(err)
		}
	})
	return n
}

// MustListen is Listen for a test.
func (h *Host) MustListen(t testing.TB) net.Listener {
	t.Helper()
	l, err := h.Listen(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// Serve serves HTTP until the end of the test, and answers the URL.
func (h *Host) Serve(t testing.TB, handler http.Handler) string {
	t.Helper()
	s := &httptest.Server{Listener: h.MustListen(t), Config: &http.Server{Handler: handler, ReadHeaderTimeout: time.Minute}}
	s.Start()
	t.Cleanup(s.Close)
	return s.URL
}
