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

	"github.com/oscarfed/oscarfed/api/oscar"
	"github.com/oscarfed/oscarfed/controlplane"
	"github.com/oscarfed/oscarfed/controlplane/federations"
	"github.com/oscarfed/oscarfed/controlplane/identity"
	"github.com/oscarfed/oscarfed/controlplane/jobs"
	"github.com/oscarfed/oscarfed/store"
	"github.com/oscarfed/oscarfed/store/embedded"
	"github.com/oscarfed/oscarfed/store/record"
	"github.com/oscarfed/oscarfed/test/await"
)

// newEndpointWorld is a world with startWithEndpoint.
func newEndpointWorld(t *testing.T, url string, mutate ...func(*controlplane.Config)) *world {
	t.Helper()
	w := emptyWorld(t, embedded.Config{})
	w.startWithEndpoint(url, mutate...)
	return w
}

// startWithEndpoint starts a control plane with a star of a, which is full, and an endpoint.
func (w *world) startWithEndpoint(url string, mutate ...func(*controlplane.Config)) {
	w.t.Helper()
	w.guard(secretEvent, "the-key-of-the-endpoint")
	w.ControlPlane = startControlPlane(w.t, w.store, w.identity, mutate...)
	w.addCluster("a")
	definition := fmt.Sprintf(`{"name":"grayifyr0","image":"i","cpu":"0.5","memory":"0.5Gi","script":"s","federation":{"topology":"star","delegation":"static",
"members":[{"type":"endpoint","url":%q,"headers":{"X-Key":"the-key-of-the-endpoint"}}]}}`, url)
	if _, err := w.Federations.CreateService(w.t.Context(), admin, send(w.t, definition)); err != nil {
		w.t.Fatal(err)
	}
	w.full("a")
}

// reachable lets the control plane connect to the addresses of the network.
func (w *world) reachable(c *controlplane.Config) {
	c.EndpointNetworks = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}
	c.Dial = w.net.Host("controlplane").DialContext
}

// TestAnEndpointGetsAJob with the member's headers, once; what it refuses is tried
// again, and what it does not answer is for a person.
func TestAnEndpointGetsAJob(t *testing.T) {
	await.InVirtualTime(t, func(t *testing.T) {
		var calls atomic.Int32
		got := make(chan string, 10)
		w := emptyWorld(t, embedded.Config{})
		url := w.net.Host("endpoint").Serve(t, http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
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
		w.startWithEndpoint(url, w.reachable)
		j := w.submit()
		done := w.is(j.ID, record.JobSucceeded)
		if done.Attempt != 3 || len(done.Attempts) != 2 || done.Attempts[0].Status != 503 || done.Attempts[1].Status != 307 || done.Place.URL != url {
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
	})
}

// TestAnEndpointInAnInnerNetworkIsNotAsked: who chooses it also chooses what it is sent.
func TestAnEndpointInAnInnerNetworkIsNotAsked(t *testing.T) {
	await.InVirtualTime(t, func(t *testing.T) {
		w := newEndpointWorld(t, "http://[::ffff:10.255.255.254]:9/admin")
		parked := w.is(w.submit().ID, record.JobParked)
		if text := parked.Attempts[0].Message; parked.Attempts[0].Reason != record.JobEndpointRefused || text != "the endpoint is at a private address; --endpoint-networks of the control plane can allow it" {
			t.Errorf("%+v", parked)
		}
	})
}

// TestAnEndpointOnThisMachineIsNotAsked unless the operator allows it.
func TestAnEndpointOnThisMachineIsNotAsked(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("it was asked") }))
	t.Cleanup(server.Close)
	await.InVirtualTime(t, func(t *testing.T) {
		w := newEndpointWorld(t, strings.Replace(server.URL, "127.0.0.1", "localhost", 1))
		j := w.submit()
		parked := w.is(j.ID, record.JobParked)
		if len(parked.Attempts) != 5 || !strings.Contains(parked.Attempts[0].Message, "loopback") || parked.Attempts[0].Reason != record.JobEndpointRefused {
			t.Errorf("%+v", parked)
		}
	})
}

// TestAJobWhoseEndpointAnsweredWhileEtcdWasAwayEnds: what came of it is written when etcd
// is back.
func TestAJobWhoseEndpointAnsweredWhileEtcdWasAwayEnds(t *testing.T) {
	await.InVirtualTime(t, func(t *testing.T) {
		asked, answer := make(chan struct{}, 10), make(chan struct{})
		w := emptyWorld(t, embedded.Config{})
		url := w.net.Host("endpoint").Serve(t, http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
			asked <- struct{}{}
			<-answer
		}))
		w.startWithEndpoint(url, w.reachable, func(c *controlplane.Config) { c.Store = w.net.Open(t, "instance", store.Config{}) })
		j := w.submit()
		<-asked
		heal := w.net.Cut("instance", "etcd")
		close(answer)
		<-time.After(13 * time.Second) // it tries to write that for ten, and gives up
		heal()
		if done := w.is(j.ID, record.JobSucceeded); done.Attempt != 1 || len(asked) > 0 {
			t.Errorf("%+v, asked %d times more", done, len(asked))
		}
	})
}

// An endpoint that takes connections and answers nothing holds up the jobs of its own account: another account's job
// gets the next free place.
func TestAnEndpointThatHangsHoldsNobodyElseUp(t *testing.T) {
	await.InVirtualTime(t, func(t *testing.T) {
		w := emptyWorld(t, embedded.Config{})
		var hanging atomic.Int32
		hangs := w.net.Host("hangs").Serve(t, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			hanging.Add(1)
			_, _ = io.Copy(io.Discard, r.Body) // only then a server sees that its client has gone
			<-r.Context().Done()
		}))
		delivered := make(chan int32, 1)
		answers := w.net.Host("answers").Serve(t, http.HandlerFunc(func(http.ResponseWriter, *http.Request) { delivered <- hanging.Load() }))
		w.startWithEndpoint(hangs, w.reachable)
		other := fmt.Sprintf(`{"name":"otherr0","visibility":"public","image":"i","cpu":"0.5","memory":"0.5Gi","script":"s","federation":{"topology":"star","delegation":"static",
"members":[{"type":"endpoint","url":%q}]}}`, answers)
		if _, err := w.Federations.CreateService(t.Context(), admin, send(t, other)); err != nil {
			t.Fatal(err)
		}
		for range 100 {
			w.submit()
		}
		w.eventually(func() bool { return hanging.Load() > 0 })
		before := hanging.Load()
		if _, err := w.Jobs.Submit(t.Context(), identity.Caller{Subject: "ann"}, jobs.Request{Service: "otherr0", Event: []byte(secretEvent)}); err != nil {
			t.Fatal(err)
		}
		if at := <-delivered; at > before+10 {
			t.Errorf("%d jobs of another account were sent before it", at-before)
		}
	})
}

// assignedToBusyEndpoint submits more jobs than are sent at once to an endpoint that counts its calls and answers none. It
// returns all of them, and those that are not sent.
func (w *world) assignedToBusyEndpoint(calls *atomic.Int32) (all, unsent []string) {
	w.t.Helper()
	for range 20 {
		all = append(all, w.submit().ID)
	}
	w.eventually(func() bool {
		unsent = nil
		for _, id := range all {
			if j, err := w.Jobs.Get(w.t.Context(), admin, id); err != nil {
				w.t.Fatal(err)
			} else if j.State == record.JobAssigned {
				unsent = append(unsent, id)
			}
		}
		return len(unsent) > 0 && len(unsent)+int(calls.Load()) == len(all)
	})
	return all, unsent
}

// TestAJobAtAnEndpointWhoseEventIsLostEnds: it can never be sent.
func TestAJobAtAnEndpointWhoseEventIsLostEnds(t *testing.T) {
	await.InVirtualTime(t, func(t *testing.T) {
		var calls atomic.Int32
		answer := make(chan struct{})
		w := emptyWorld(t, embedded.Config{})
		url := w.net.Host("endpoint").Serve(t, http.HandlerFunc(func(http.ResponseWriter, *http.Request) { calls.Add(1); <-answer }))
		w.startWithEndpoint(url, w.reachable)
		_, unsent := w.assignedToBusyEndpoint(&calls)
		if _, err := w.store.Update(t.Context(), store.Update{Build: func(_ store.View, tx *store.Txn) error {
			for _, id := range unsent {
				tx.Delete(record.EventKey(id))
			}
			return nil
		}}); err != nil {
			t.Fatal(err)
		}
		close(answer)
		for _, id := range unsent {
			if j := w.is(id, record.JobFailed); j.Reason != record.JobEventLost {
				t.Errorf("%+v", j)
			}
		}
	})
}

// TestARemovedEndpointGetsNoMoreJobs: of those that were assigned to it before, each would be sent without the member's headers.
func TestARemovedEndpointGetsNoMoreJobs(t *testing.T) {
	await.InVirtualTime(t, func(t *testing.T) {
		var calls atomic.Int32
		answer := make(chan struct{})
		w := emptyWorld(t, embedded.Config{})
		url := w.net.Host("endpoint").Serve(t, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			if calls.Add(1); r.Header.Get("X-Key") == "" {
				t.Error("it got a job without its header")
			}
			<-answer
		}))
		w.startWithEndpoint(url, w.reachable)
		ids, _ := w.assignedToBusyEndpoint(&calls)
		if _, err := w.Federations.ChangeReplicas(t.Context(), admin, "grayifyr0", federations.ReplicasRequest{
			Remove: []oscar.Member{{Type: oscar.MemberEndpoint, URL: url}},
		}); err != nil {
			t.Fatal(err)
		}
		sent := int(calls.Load())
		close(answer)
		ends := 0
		for _, id := range ids {
			j := w.becomes(id, func(j *jobs.Job) bool { return j.State == record.JobSucceeded || j.State == record.JobQueued })
			if j.State == record.JobSucceeded {
				ends++
			} else if len(j.Attempts) != 1 || j.Attempts[0].Reason != record.JobWithdrawn || j.Tries != 0 {
				t.Errorf("%+v", j)
			}
		}
		if ends != sent || int(calls.Load()) != sent {
			t.Errorf("%d were sent before it was removed, %d later, and %d have ended", sent, int(calls.Load())-sent, ends)
		}
	})
}
