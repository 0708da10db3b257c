package balance

import (
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/balancer"
	"google.golang.org/grpc/balancer/endpointsharding"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/resolver"
	"google.golang.org/grpc/status"
)

// conn stands for a connection.
type conn struct {
	balancer.SubConn
	name string
	// takes is how long it takes to answer, and says the error that it answers with.
	takes time.Duration
	says  error
}

const aRequest = "/etcdserverpb.KV/Range"

// Pick implements balancer.Picker.
func (c *conn) Pick(balancer.PickInfo) (balancer.PickResult, error) {
	return balancer.PickResult{SubConn: c}, nil
}

func among(c *chooser, conns ...*conn) balancer.Picker {
	var children []endpointsharding.ChildState
	for _, conn := range conns {
		children = append(children, endpointsharding.ChildState{
			Endpoint: resolver.Endpoint{Addresses: []resolver.Address{{Addr: conn.name}}},
			State:    balancer.State{ConnectivityState: connectivity.Ready, Picker: conn},
		})
	}
	children = append(children, endpointsharding.ChildState{
		Endpoint: resolver.Endpoint{Addresses: []resolver.Address{{Addr: "away"}}},
		State:    balancer.State{ConnectivityState: connectivity.TransientFailure},
	})
	return c.picker(children)
}

func newChooser() *chooser { return &chooser{now: time.Now, members: map[string]*member{}} }

// ask asks once, and says who was.
func ask(t *testing.T, p balancer.Picker) *conn {
	t.Helper()
	picked, err := p.Pick(balancer.PickInfo{FullMethodName: aRequest})
	if err != nil {
		t.Fatal(err)
	}
	c, ok := picked.SubConn.(*conn)
	if !ok {
		t.Fatal("it is no connection of the test")
	}
	go func() {
		<-time.After(c.takes)
		picked.Done(balancer.DoneInfo{Err: c.says})
	}()
	return c
}

// load asks every 20 ms for a time, and counts who was asked.
func load(t *testing.T, p balancer.Picker, lasts time.Duration) map[string]int {
	t.Helper()
	asked := map[string]int{}
	for until := time.Now().Add(lasts); time.Now().Before(until); <-time.After(20 * time.Millisecond) {
		asked[ask(t, p).name]++
	}
	return asked
}

func TestAMemberThatIsIllIsLeft(t *testing.T) {
	for what, ill := range map[string]conn{
		"it hangs":                     {takes: 3 * time.Second, says: status.Error(codes.DeadlineExceeded, "")},
		"it is slow":                   {takes: 2 * time.Second},
		"it says at once that it is":   {says: status.Error(codes.Unavailable, "no leader")},
		"it has a hundredth of a core": {takes: 300 * time.Millisecond},
	} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ill.name = "ill"
				well, other := &conn{name: "well", takes: 5 * time.Millisecond}, &conn{name: "other", takes: 5 * time.Millisecond}
				p := among(newChooser(), well, other, &ill)
				asked := load(t, p, 10*time.Second)
				if n := asked["ill"]; n > 3 {
					t.Errorf("of %v requests", asked)
				}
				if asked["well"] < 100 || asked["other"] < 100 {
					t.Errorf("the others are not asked in turn: %v", asked)
				}
				ill.takes, ill.says = 5*time.Millisecond, nil
				load(t, p, 2*time.Minute)
				if asked := load(t, p, 10*time.Second); asked["ill"] < 100 {
					t.Errorf("it is well again for two minutes, and is not asked in turn: %v", asked)
				}
				synctest.Wait()
			})
		})
	}
}

// When all are ill, all are asked.
func TestMembersThatAreAllIllAreAskedInTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		no := status.Error(codes.Unavailable, "no leader")
		asked := load(t, among(newChooser(), &conn{name: "a", says: no}, &conn{name: "b", says: no}, &conn{name: "c", says: no}), 10*time.Second)
		for _, name := range []string{"a", "b", "c"} {
			if asked[name] < 50 {
				t.Errorf("%v", asked)
			}
		}
	})
}

// What is open for long goes to members that are well, and says nothing of them.
func TestAStreamGoesToAMemberThatIsWell(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ill, a, b := &conn{name: "ill", takes: 2 * time.Second}, &conn{name: "a"}, &conn{name: "b"}
		p := among(newChooser(), ill, a, b)
		load(t, p, time.Second)
		streams := map[string]int{}
		for range 300 {
			picked, err := p.Pick(balancer.PickInfo{FullMethodName: "/etcdserverpb.Watch/Watch"})
			if err != nil {
				t.Fatal(err)
			}
			if picked.Done != nil {
				t.Fatal("it is measured")
			}
			c, _ := picked.SubConn.(*conn)
			streams[c.name]++
		}
		if streams["ill"] > 0 || streams["a"] < 50 || streams["b"] < 50 {
			t.Errorf("%v", streams)
		}
		<-time.After(time.Minute)
	})
}

// What a member showed is known when another one comes or goes, and when it was away itself.
func TestWhatAMemberShowedStays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slow, quick, gone := &conn{name: "slow", takes: time.Second}, &conn{name: "quick"}, &conn{name: "gone"}
		all := newChooser()
		load(t, among(all, slow, quick, gone), 5*time.Second)
		if asked := load(t, among(all, slow, quick), time.Second); asked["slow"] > 0 {
			t.Errorf("%v", asked)
		}
		load(t, among(all, quick, gone), time.Second)
		if asked := load(t, among(all, slow, quick), time.Second); asked["slow"] > 0 {
			t.Errorf("it was away for a moment: %v", asked)
		}
		<-time.After(time.Minute)
	})
}
