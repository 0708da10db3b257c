package wire_test

import (
	"net"
	"syscall"
	"testing"

	"github.com/oscarfed/oscarfed/test/wire"
)

// TestOutside: connections to real sockets have the faults of their rules.
func TestOutside(t *testing.T) {
	t.Parallel()
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	n := wire.New(1, wire.Outside(new(net.Dialer).DialContext))
	defer func() { _ = n.Close() }()
	near := dial(t, n.Host("client"), l)
	far := accept(t, l)
	write(t, near, "to a socket")
	reads(t, far, "to a socket", nil)
	write(t, far, "and back")
	reads(t, near, "and back", nil)
	heal := n.Cut("client", l.Addr().String())
	write(t, near, "held")
	heal()
	reads(t, far, "held", nil)
	n.AddRule(l.Addr().String(), "client", wire.Rule{Break: 1})
	write(t, far, "x")
	reads(t, near, "", syscall.ECONNRESET)
}
