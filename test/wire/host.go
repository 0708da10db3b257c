package wire

import (
	"context"
	"fmt"
	"net"
	"os"
	"slices"
	"sync"
	"syscall"
)

// Host is the network as one process sees it.
type Host struct {
	net        *Network
	name       string
	generation int
	machine    *machine

	// Under net.mu.
	dead, frozen bool
	listeners    []*listener
}

// Name is the host's name.
func (h *Host) Name() string { return h.name }

// Generation counts the processes of a name, from 1.
func (h *Host) Generation() int { return h.generation }

// Listen opens a listener at an address of its own: a port of 127.0.0.1, for which
// certificates of tests are made.
func (h *Host) Listen(context.Context) (net.Listener, error) {
	h.net.mu.Lock()
	defer h.net.mu.Unlock()
	for {
		addr := &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: h.net.nextPort}
		h.net.nextPort++
		if h.net.endpoints[addr.String()] == nil {
			return h.listen(addr)
		}
	}
}

// ListenAt opens a listener at an address that nobody listens at now: one that Listen
// gave an earlier process, or any name with a port.
func (h *Host) ListenAt(_ context.Context, address string) (net.Listener, error) {
	h.net.mu.Lock()
	defer h.net.mu.Unlock()
	if e := h.net.endpoints[address]; e != nil && e.listener != nil {
		return nil, &net.OpError{Op: "listen", Net: tcp, Addr: addrOf(address), Err: os.NewSyscallError("bind", syscall.EADDRINUSE)}
	}
	return h.listen(addrOf(address))
}

func (h *Host) listen(addr net.Addr) (net.Listener, error) {
	if h.dead {
		return nil, &net.OpError{Op: "listen", Net: tcp, Addr: addr, Err: errKilled}
	}
	l := &listener{host: h, addr: addr, waiting: sync.Cond{L: &h.net.mu}}
	h.listeners = append(h.listeners, l)
	h.net.endpoints[addr.String()] = &endpoint{owner: h.name, listener: l}
	return l, nil
}

// Kill ends the process as SIGKILL does. Others see its connections reset; of what it had
// sent, chance decides what arrives. What its goroutines still try fails.
func (h *Host) Kill() {
	n := h.net
	n.mu.Lock()
	defer n.mu.Unlock()
	if h.dead {
		return
	}
	h.dead, h.frozen = true, false
	n.trace.add(h.String(), "", 0, "killed")
	for _, l := range slices.Clone(h.listeners) {
		l.close(errKilled)
	}
	n.kill(h.ends())
	n.change()
}

// Freeze stops the process as SIGSTOP does: its reads, dials and accepts wait until Thaw, whatever
// their deadlines. What it had sent arrives, and what others send it waits. What its goroutines still
// write, up to a window, does not leave it before the thaw, and is lost when it is killed.
func (h *Host) Freeze() { h.setFrozen(true, "frozen") }

// Thaw lets it go on.
func (h *Host) Thaw() { h.setFrozen(false, "thawed") }

func (h *Host) setFrozen(frozen bool, what string) {
	n := h.net
	n.mu.Lock()
	defer n.mu.Unlock()
	if h.dead || h.frozen == frozen {
		return
	}
	h.frozen = frozen
	n.trace.add(h.String(), "", 0, what)
	for _, e := range h.ends() {
		e.conn.mu.Lock()
		e.setFrozen(frozen)
		e.conn.mu.Unlock()
	}
	for _, l := range h.listeners {
		l.waiting.Broadcast()
	}
	n.change()
}

// ends are those of the process's connections.
func (h *Host) ends() []*end {
	var out []*end
	for _, c := range h.net.connections {
		for side := range c.ends {
			if c.ends[side].host == h {
				out = append(out, &c.ends[side])
			}
		}
	}
	return out
}

// String is the name, and the generation of one that was started again.
func (h *Host) String() string {
	if h.generation == 1 {
		return h.name
	}
	return fmt.Sprintf("%s(%d)", h.name, h.generation)
}
