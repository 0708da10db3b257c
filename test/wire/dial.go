package wire

import (
	"context"
	"net"
	"os"
	"sync"
	"syscall"
	"time"
)

// DialContext opens a connection.
func (h *Host) DialContext(ctx context.Context, _, address string) (net.Conn, error) {
	d := &dial{host: h, address: address}
	for {
		e, pause, err := d.try(ctx)
		switch {
		case err != nil:
			return nil, &net.OpError{Op: "dial", Net: tcp, Addr: addrOf(address), Err: err}
		case pause == nil:
			return e, nil
		}
		pause.wait(ctx)
	}
}

// dial is one that is under way.
type dial struct {
	host    *Host
	address string
	// began says that chance has decided on it.
	began   bool
	owner   string
	dice    dice
	dropped bool
	// answered is when the other side's answer arrives.
	answered time.Time
}

// try gives the connection, how long to wait before it is tried again, or an error.
func (d *dial) try(ctx context.Context) (*end, *pause, error) {
	n := d.host.net
	n.mu.Lock()
	defer n.mu.Unlock()
	switch {
	case d.host.dead:
		return nil, nil, errKilled
	case ctx.Err() != nil:
		return nil, nil, ctx.Err()
	case d.host.frozen:
		return nil, &pause{changed: n.changed}, nil
	case !d.began:
		if err := d.begin(); err != nil {
			return nil, nil, err
		}
	}
	there, back := n.matching(d.host.name, d.owner), n.matching(d.owner, d.host.name)
	if d.dropped || cuts(there) || cuts(back) {
		return nil, &pause{changed: n.changed}, nil
	}
	if d.answered.IsZero() {
		d.answered = time.Now().Add(delays(there, &d.dice) + delays(back, &d.dice))
	}
	if left := time.Until(d.answered); left > 0 {
		return nil, &pause{changed: n.changed, atMost: left}, nil
	}
	at := n.endpoints[d.address]
	if at.listener == nil {
		n.trace.add(d.host.String(), d.owner, d.dice.ordinal, "nobody listens")
		return nil, nil, refused()
	}
	return n.connect(d.host, at.listener, &d.dice), nil, nil
}

// begin finds out whom the address belongs to, and draws what becomes of the dial.
func (d *dial) begin() error {
	n := d.host.net
	d.began = true
	at := n.endpoints[d.address]
	if at == nil {
		n.trace.add(d.host.String(), d.address, 0, "no such address")
		return refused()
	}
	d.owner = at.owner
	key := [2]string{d.host.name, d.owner}
	n.dialled[key]++
	d.dice = dice{seed: n.seed, from: d.host.name, to: d.owner, ordinal: n.dialled[key], what: "dial"}
	for _, r := range n.matching(d.host.name, d.owner) {
		if r.happens(r.Refuse, &d.dice) {
			n.trace.add(d.host.String(), d.owner, d.dice.ordinal, "refused")
			return refused()
		}
		if r.happens(r.Drop, &d.dice) {
			n.trace.add(d.host.String(), d.owner, d.dice.ordinal, "never answered")
			d.dropped = true
		}
	}
	return nil
}

func refused() error { return os.NewSyscallError("connect", syscall.ECONNREFUSED) }

// pause ends when the network has changed, or after some time if that is not 0.
type pause struct {
	changed <-chan struct{}
	atMost  time.Duration
}

func (p *pause) wait(ctx context.Context) {
	var over <-chan time.Time
	if p.atMost > 0 {
		timer := time.NewTimer(p.atMost)
		defer timer.Stop()
		over = timer.C
	}
	select {
	case <-p.changed:
	case <-over:
	case <-ctx.Done():
	}
}

// connect makes a connection, which waits to be accepted.
func (n *Network) connect(from *Host, l *listener, of *dice) *end {
	c := n.open(from, l.host, of)
	c.ends[0].remote, c.ends[1].local = l.addr, l.addr
	l.backlog = append(l.backlog, &c.ends[1])
	l.waiting.Broadcast()
	return &c.ends[0]
}

// open makes a connection between two processes.
func (n *Network) open(from, to *Host, of *dice) *connection {
	m := from.machine
	local := &net.TCPAddr{IP: m.ip, Port: m.nextDialed}
	if m.nextDialed++; m.nextDialed > lastPort {
		m.nextDialed = firstDialedPort
	}
	c := &connection{net: n, ordinal: of.ordinal, index: len(n.connections)}
	n.connections = append(n.connections, c)
	hosts, what := [2]*Host{from, to}, [2]string{"there", "back"}
	for side := range c.ends {
		c.ends[side] = end{conn: c, side: side, host: hosts[side], frozen: hosts[side].frozen}
		s := &c.streams[side]
		s.back, s.dice = &c.streams[1-side], *of
		s.dice.what, s.dice.rng = what[side], nil
		s.readable, s.writable = sync.Cond{L: &c.mu}, sync.Cond{L: &c.mu}
		s.lock, s.frozen = &c.mu, hosts[side].frozen
		s.follow(n.matching(hosts[side].name, hosts[1-side].name))
	}
	c.ends[0].local, c.ends[1].remote = local, local
	n.trace.add(from.String(), to.String(), of.ordinal, "connected")
	return c
}
