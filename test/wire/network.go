package wire

import (
	"errors"
	"fmt"
	"net"
	"path"
	"slices"
	"sync"
	"time"
)

// Network is a network in memory.
type Network struct {
	seed  uint64
	trace trace

	// mu is held before that of a connection.
	mu     sync.Mutex
	closed bool
	hosts  map[string]*machine
	// endpoints are all addresses at which a host has ever listened.
	endpoints map[string]*endpoint
	nextPort  int
	rules     []*rule
	// dialled counts connections by the names of their hosts.
	dialled map[[2]string]int
	// connections have at least one end that is open. They are in an order that does not
	// depend on chance, as goroutines are woken in it.
	connections []*connection
	// changed is closed when a dial that waits has to look again.
	changed chan struct{}
}

// machine is what the processes of one name share.
type machine struct {
	ip         net.IP
	process    *Host
	generation int
	nextDialed int
}

// endpoint is an address.
type endpoint struct {
	owner    string
	listener *listener // nil while it is closed
}

// New makes a network without faults.
func New(seed uint64) *Network {
	return &Network{
		seed: seed, hosts: map[string]*machine{}, endpoints: map[string]*endpoint{}, dialled: map[[2]string]int{},
		nextPort: firstPort, changed: make(chan struct{}), trace: trace{began: time.Now()},
	}
}

// Host is the process of that name. When the last one was killed, it is a new one.
func (n *Network) Host(name string) *Host {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.host(name)
}

func (n *Network) host(name string) *Host {
	m := n.hosts[name]
	if m == nil {
		i := len(n.hosts) + 1
		m = &machine{ip: net.IPv4(127, byte(1+i>>16), byte(i>>8), byte(i)), nextDialed: firstDialedPort}
		n.hosts[name] = m
	}
	if m.process == nil || m.process.dead {
		m.generation++
		m.process = &Host{net: n, name: name, generation: m.generation, machine: m, dead: n.closed}
	}
	return m.process
}

// The first port that listeners are given, and those that hosts dial from.
const (
	firstPort       = 1000
	firstDialedPort = 32 << 10
	lastPort        = 65535
)

// AddRule sets a rule for what a host sends another, and returns what removes it. The names are
// patterns of path.Match: "*" is every host. Where several rules match, their delays
// add up, and each draws for itself.
func (n *Network) AddRule(from, to string, what Rule) (remove func()) {
	for _, pattern := range []string{from, to} {
		if _, err := path.Match(pattern, ""); err != nil {
			panic(fmt.Errorf("wire: host pattern %q: %w", pattern, err))
		}
	}
	r := &rule{Rule: what, from: from, to: to}
	r.left.Store(int64(what.Times))
	n.mu.Lock()
	defer n.mu.Unlock()
	n.rules = append(n.rules, r)
	n.rulesChanged(r, "rule "+what.String())
	return func() {
		n.mu.Lock()
		defer n.mu.Unlock()
		if i := slices.Index(n.rules, r); i >= 0 {
			n.rules = slices.Delete(slices.Clone(n.rules), i, i+1)
			n.rulesChanged(r, "no rule "+what.String())
		}
	}
}

// Cut holds back what two hosts send each other, until heal is called.
func (n *Network) Cut(a, b string) (heal func()) {
	there, back := n.AddRule(a, b, Rule{Cut: true}), n.AddRule(b, a, Rule{Cut: true})
	return func() {
		there()
		back()
	}
}

// rulesChanged lets open connections and dials follow the rules.
func (n *Network) rulesChanged(r *rule, what string) {
	n.trace.add(r.from, r.to, 0, what)
	for _, c := range n.connections {
		for side := range c.streams {
			if from, to := c.ends[side].host.name, c.ends[1-side].host.name; r.matches(from, to) {
				c.mu.Lock()
				c.streams[side].follow(n.matching(from, to))
				c.mu.Unlock()
			}
		}
	}
	n.change()
}

// matching are the rules for one direction.
func (n *Network) matching(from, to string) []*rule {
	var out []*rule
	for _, r := range n.rules {
		if r.matches(from, to) {
			out = append(out, r)
		}
	}
	return out
}

// change wakes the dials that wait.
func (n *Network) change() {
	close(n.changed)
	n.changed = make(chan struct{})
}

// forget removes a connection both of whose ends are gone.
func (n *Network) forget(c *connection) {
	c.mu.Lock()
	over := c.ends[0].gone != nil && c.ends[1].gone != nil
	c.mu.Unlock()
	if !over || c.index < 0 {
		return
	}
	last := len(n.connections) - 1
	n.connections[c.index] = n.connections[last]
	n.connections[c.index].index = c.index
	n.connections[last] = nil
	n.connections, c.index = n.connections[:last], -1
}

// kill ends ends as the death of their process does.
func (n *Network) kill(ends []*end) {
	for _, e := range ends {
		e.conn.mu.Lock()
		e.kill()
		e.conn.mu.Unlock()
		n.forget(e.conn)
	}
}

// Close kills all hosts. What is used of the network later fails.
func (n *Network) Close() error {
	n.mu.Lock()
	if n.closed {
		n.mu.Unlock()
		return nil
	}
	n.closed = true
	var hosts []*Host
	for _, m := range n.hosts {
		hosts = append(hosts, m.process)
	}
	slices.SortFunc(hosts, func(a, b *Host) int { return slices.Compare(a.machine.ip, b.machine.ip) })
	n.mu.Unlock()
	for _, h := range hosts {
		h.Kill()
	}
	return nil
}

var errKilled = errors.New("the process was killed")
