// Package balance chooses the member of etcd that a request goes to: the one that answers soonest. A member
// that is slow, hangs or has no leader is left after its first request, long before its connection breaks.
//
// It is the balancing by peak EWMA of Finagle (twitter/finagle, PeakEwma), over all members in place of two at
// random, with the age of what is not answered yet: a member costs the latency that it showed, where a rise
// counts at once and a fall over some seconds, times the requests that it has.
package balance

import (
	"math"
	"math/rand/v2"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/balancer"
	"google.golang.org/grpc/balancer/endpointsharding"
	"google.golang.org/grpc/balancer/pickfirst"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/status"
)

// name is that of the policy in gRPC's registry.
const name = "oscarfed_soonest"

const (
	// forget is how long a latency takes to fall to its third.
	forget = 10 * time.Second
	// least is the smallest latency that counts, so that members which nobody has asked are asked in turn.
	least = time.Millisecond
	// refused is what a request counts that the member could not serve, however soon it said so.
	refused = 3 * time.Second
	// well is the latency up to which a member may be given a stream.
	well = 500 * time.Millisecond
)

func init() { balancer.Register(policy{}) } //nolint:gochecknoinits // gRPC's registry is not safe later

// Options have a connection choose among its endpoints so. etcd's client brings a policy of its own, which is
// ignored.
func Options() []grpc.DialOption {
	return []grpc.DialOption{grpc.WithDisableServiceConfig(), grpc.WithDefaultServiceConfig(`{"loadBalancingConfig":[{"` + name + `":{}}]}`)}
}

// policy makes the balancer of each connection.
type policy struct{}

func (policy) Name() string { return name }

// Build keeps a connection to each member, and leaves to a picker which one is asked.
func (policy) Build(cc balancer.ClientConn, opts balancer.BuildOptions) balancer.Balancer {
	return endpointsharding.NewBalancer(&chooser{ClientConn: cc, now: time.Now, members: map[string]*member{}}, opts,
		balancer.Get(pickfirst.Name).Build, endpointsharding.Options{})
}

// chooser is the connection that a balancer works for, with pickers of our own. gRPC changes its state from one
// goroutine at a time.
type chooser struct {
	balancer.ClientConn
	now func() time.Time
	// members are all that were connected, by address.
	members map[string]*member
}

// UpdateState implements balancer.ClientConn.
func (c *chooser) UpdateState(state balancer.State) {
	if p := c.picker(endpointsharding.ChildStatesFromPicker(state.Picker)); len(p.members) > 0 {
		state.Picker = p
	}
	c.ClientConn.UpdateState(state)
}

func (c *chooser) picker(of []endpointsharding.ChildState) *picker {
	out := &picker{now: c.now}
	for _, child := range of {
		if child.State.ConnectivityState != connectivity.Ready {
			continue
		}
		address := child.Endpoint.Addresses[0].Addr
		m := c.members[address]
		if m == nil {
			m = &member{asked: map[*request]bool{}}
			c.members[address] = m
		}
		out.members = append(out.members, connected{m, child.State.Picker})
	}
	return out
}

// connected is a member with what gives its connection.
type connected struct {
	*member
	balancer.Picker
}

// picker chooses among the members that are connected.
type picker struct {
	now     func() time.Time
	members []connected
}

// Pick implements balancer.Picker.
func (p *picker) Pick(info balancer.PickInfo) (balancer.PickResult, error) {
	now := p.now()
	if streams(info.FullMethodName) {
		return p.forStream(now).Pick(info)
	}
	best := p.least(func(m connected) float64 { return m.cost(now) })
	picked, err := best.Pick(info)
	if err != nil {
		return picked, err
	}
	answered, told := best.ask(p.now), picked.Done
	picked.Done = func(info balancer.DoneInfo) {
		answered(info)
		if told != nil {
			told(info)
		}
	}
	return picked, nil
}

// least is the member with the least cost; of several one at random.
func (p *picker) least(cost func(connected) float64) (best connected) {
	lowest := math.Inf(1)
	for _, i := range rand.Perm(len(p.members)) { //nolint:gosec // spreads load, guards nothing
		if c := cost(p.members[i]); c < lowest {
			best, lowest = p.members[i], c
		}
	}
	return best
}

// forStream is a member at random of those that are well: what is open for hours is spread.
func (p *picker) forStream(now time.Time) connected {
	return p.least(func(m connected) float64 { return float64(max(m.latency(now), well)) })
}

// streams says whether a method goes on for as long as it is wanted.
func streams(method string) bool {
	switch method[strings.LastIndexByte(method, '/')+1:] {
	case "Watch", "LeaseKeepAlive", "Snapshot", "RangeStream":
		return true
	}
	return false
}

// member is what is known of one member of etcd.
type member struct {
	mu sync.Mutex
	// showed is the latency as of at.
	showed time.Duration
	at     time.Time
	// asked are the requests that are not answered.
	asked map[*request]bool
}

// request is when a member was asked.
type request struct{ at time.Time }

// latency is what is to be expected of the member: what it showed, or how long it owes an answer.
func (m *member) latency(now time.Time) time.Duration {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.expected(now)
}

func (m *member) cost(now time.Time) float64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return float64(max(m.expected(now), least)) * float64(len(m.asked)+1)
}

// expected needs mu.
func (m *member) expected(now time.Time) time.Duration {
	latency := m.faded(now)
	for r := range m.asked {
		latency = max(latency, now.Sub(r.at))
	}
	return latency
}

// faded is what it showed, of which less counts as time goes on. It needs mu.
func (m *member) faded(now time.Time) time.Duration {
	return time.Duration(float64(m.showed) * m.left(now))
}

// left is the part of it that counts. It needs mu.
func (m *member) left(now time.Time) float64 {
	return math.Exp(-max(now.Sub(m.at), 0).Seconds() / forget.Seconds())
}

// ask notes a request; the answer is told to done.
func (m *member) ask(now func() time.Time) (done func(balancer.DoneInfo)) {
	r := &request{at: now()}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.asked[r] = true
	return func(info balancer.DoneInfo) {
		m.mu.Lock()
		defer m.mu.Unlock()
		delete(m.asked, r)
		at := now()
		m.show(at, max(at.Sub(r.at), 0), info.Err)
	}
}

// show notes how long a request took. It needs mu.
func (m *member) show(now time.Time, took time.Duration, err error) {
	before := m.faded(now)
	switch status.Code(err) {
	case codes.Unavailable, codes.DeadlineExceeded, codes.ResourceExhausted:
		took = max(took, refused)
	case codes.Canceled:
		took = max(took, before) // it would have taken longer
	}
	if took < before {
		took = before + time.Duration(float64(took)*(1-m.left(now)))
	}
	m.showed, m.at = took, now
}
