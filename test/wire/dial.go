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
		e, wait, err := d.try(ctx)
		if err == nil && wait == nil {
			return e, nil
		}
		if err == nil {
			err = wait(ctx)
		}
		if err != nil {
			if d.outside != nil {
				_ = d.outside.Close()
			}
			return nil, &net.OpError{Op: "dial", Net: tcp, Addr: addrOf(address), Err: err}
		}
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
	outside  net.Conn
}

// try gives the connection, what to wait for before it is tried again, or an error.
func (d *dial) try(ctx context.Context) (*end, func(context.Context) error, error) {
	n := d.host.net
	n.mu.Lock()
	defer n.mu.Unlock()
	switch {
	case d.host.dead:
		return nil, nil, errKilled
	case ctx.Err() != nil:
		return nil, nil, ctx.Err()
	case d.host.frozen:
		return nil, until(n.changed, 0), nil
	case !d.began:
		if err := d.begin(); err != nil {
			return nil, nil, err
		}
	}
	there, back := n.matching(d.host.name, d.owner), n.matching(d.owner, d.host.name)
	if d.dropped || cuts(there) || cuts(back) {
		return nil, until(n.changed, 0), nil
	}
	if d.answered.IsZero() {
		d.answered = time.Now().Add(delays(there, &d.dice) + delays(back, &d.dice))
	}
	if left := time.Until(d.answered); left > 0 {
		return nil, until(n.changed, left), nil
	}
	at := n.endpoints[d.address]
	if at == nil && d.outside == nil {
		return nil, d.dialOutside, nil
	}
	if at == nil {
		return d.host.join(d.outside, d.owner, &d.dice), nil, nil
	}
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
	if at := n.endpoints[d.address]; at != nil {
		d.owner = at.owner
	} else if n.outside != nil {
		d.owner = d.address
	} else {
		n.trace.add(d.host.String(), d.address, 0, "no such address")
		return refused()
	}
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

// until waits for a change, or for some time if it is not 0.
func until(changed <-chan struct{}, after time.Duration) func(context.Context) error {
	return func(ctx context.Context) error {
		var timeout <-chan time.Time
		if after > 0 {
			timer := time.NewTimer(after)
			defer timer.Stop()
			timeout = timer.C
		}
		select {
		case <-changed:
		case <-timeout:
		case <-ctx.Done():
			return ctx.Err()
		}
		return nil
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
		s.lock = &c.mu
		s.follow(n.matching(hosts[side].name, hosts[1-side].name))
	}
	c.ends[0].local, c.ends[1].remote = local, local
	n.trace.add(from.String(), to.String(), of.ordinal, "connected")
	return c
}
