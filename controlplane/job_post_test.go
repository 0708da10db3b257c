package controlplane_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/oscarfed/oscarfed/controlplane"
	"github.com/oscarfed/oscarfed/controlplane/jobs"
	"github.com/oscarfed/oscarfed/store"
	"github.com/oscarfed/oscarfed/store/record"
	"github.com/oscarfed/oscarfed/store/storetest"
	"github.com/oscarfed/oscarfed/test/invariants"
)

// newEndpointWorld is a star of a, which is full, and an endpoint.
func newEndpointWorld(t *testing.T, url string, mutate ...func(*controlplane.Config)) *world {
	t.Helper()
	return newEndpointWorldOn(t, storetest.Etcd(t), url, mutate...)
}

func newEndpointWorldOn(t *testing.T, endpoint, url string, mutate ...func(*controlplane.Config)) *world {
	t.Helper()
	invariants.Guard(t, endpoint, invariants.Options{Secrets: []string{secretEvent, "the-key-of-the-endpoint"}})
	w := &world{t: t, store: storetest.Open(t, store.Config{Endpoints: []string{endpoint}}), identity: newIdentity(t), clusters: map[string]*fakeSyncer{}}
	mutate = append([]func(*controlplane.Config){func(c *controlplane.Config) { c.JobPause = 10 * time.Millisecond }}, mutate...)
	w.ControlPlane = startControlPlane(t, w.store, w.identity, mutate...)
	w.addCluster("a")
	definition := fmt.Sprintf(`{"name":"grayifyr0","image":"i","cpu":"0.5","memory":"0.5Gi","script":"s","federation":{"topology":"star","delegation":"static",
"members":[{"type":"endpoint","url":%q,"headers":{"X-Key":"the-key-of-the-endpoint"}}]}}`, url)
	if _, err := w.Federations.CreateService(t.Context(), admin, send(t, definition)); err != nil {
		t.Fatal(err)
	}
	w.full("a")
	return w
}

func loopback(c *controlplane.Config) {
	c.EndpointNetworks = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}
}

// TestAnEndpointGetsAJob with the member's headers, once; what it refuses is tried
// again, and what it does not answer is for a person.
func TestAnEndpointGetsAJob(t *testing.T) {
	var calls atomic.Int32
	got := make(chan string, 10)
	server := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		switch n := calls.Add(1); {
		case n == 1:
			rw.WriteHeader(http.StatusServiceUnavailable)
		case n == 2:
			http.Redirect(rw, r, "/elsewhere", http.StatusTemporaryRedirect)
		case n == 3:
			got <- r.Header.Get("X-Key") + " " + string(body)
			rw.WriteHeader(http.StatusAccepted)
		default:
			conn, _, err := http.NewResponseController(rw).Hijack()
			if err == nil {
				_ = conn.Close()
			}
		}
	}))
	t.Cleanup(server.Close)
	w := newEndpointWorld(t, server.URL, loopback)
	j := w.submit()
	done := w.is(j.ID, record.JobSucceeded)
	if done.Attempt != 3 || len(done.Attempts) != 2 || done.Attempts[0].Status != 503 || done.Attempts[1].Status != 307 || done.Place.URL != server.URL {
		t.Errorf("%+v", done)
	}
	if text := <-got; text != "the-key-of-the-endpoint "+secretEvent {
		t.Errorf("it got %q", text)
	}
	unanswered := w.submit()
	w.is(unanswered.ID, record.JobUncertain)
	if n := calls.Load(); n != 4 {
		t.Errorf("it was asked %d times", n)
	}
	if gone, err := w.Jobs.Resolve(t.Context(), admin, jobs.Order{Job: unanswered.ID}, record.JobVanished); err != nil || gone.State != record.JobVanished {
		t.Errorf("%+v %v", gone, err)
	}
	if len(w.keys(record.EventsPrefix)) > 0 {
		t.Errorf("left: %v", w.keys(record.EventsPrefix))
	}
}

// TestAnEndpointInAnInnerNetworkIsNotAsked: who chooses it also chooses what it is sent.
func TestAnEndpointInAnInnerNetworkIsNotAsked(t *testing.T) {
	t.Parallel()
	w := newEndpointWorld(t, "http://[::ffff:10.255.255.254]:9/admin")
	parked := w.is(w.submit().ID, record.JobParked)
	if text := parked.Attempts[0].Message; parked.Attempts[0].Reason != record.JobEndpointRefused || text != "the endpoint is at a private address; --endpoint-networks of the control plane can allow it" {
		t.Errorf("%+v", parked)
	}
}

// TestAnEndpointOnThisMachineIsNotAsked unless the operator allows it.
func TestAnEndpointOnThisMachineIsNotAsked(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("it was asked") }))
	t.Cleanup(server.Close)
	w := newEndpointWorld(t, strings.Replace(server.URL, "127.0.0.1", "localhost", 1))
	j := w.submit()
	parked := w.is(j.ID, record.JobParked)
	if len(parked.Attempts) != 5 || !strings.Contains(parked.Attempts[0].Message, "loopback") || parked.Attempts[0].Reason != record.JobEndpointRefused {
		t.Errorf("%+v", parked)
	}
}

// TestAJobWhoseEndpointAnsweredWhileEtcdWasAwayEnds: what came of it is written when etcd
// is back.
func TestAJobWhoseEndpointAnsweredWhileEtcdWasAwayEnds(t *testing.T) {
	t.Parallel()
	asked, answer := make(chan struct{}, 10), make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		asked <- struct{}{}
		<-answer
	}))
	t.Cleanup(server.Close)
	etcd := storetest.Etcd(t)
	proxy := storetest.NewProxy(t, etcd)
	w := newEndpointWorldOn(t, etcd, server.URL, loopback, func(c *controlplane.Config) {
		c.Store = storetest.Open(t, store.Config{Endpoints: []string{proxy.Endpoint()}, RequestTimeout: 500 * time.Millisecond, Deadline: time.Second})
	})
	j := w.submit()
	<-asked
	proxy.Freeze()
	close(answer)
	<-time.After(13 * time.Second) // it tries to write that for ten, and gives up
	proxy.Thaw()
	if done := w.is(j.ID, record.JobSucceeded); done.Attempt != 1 || len(asked) > 0 {
		t.Errorf("%+v, asked %d times more", done, len(asked))
	}
}
