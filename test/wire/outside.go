package wire

import (
	"context"
	"io"
	"net"
)

// dialOutside opens a real connection.
func (d *dial) dialOutside(ctx context.Context) (err error) {
	d.outside, err = d.host.net.outside(ctx, tcp, d.address)
	return err
}

// join makes a connection whose far end is a real one.
func (h *Host) join(outside net.Conn, owner string, of *dice) *end {
	c := h.net.open(h, h.net.host(owner), of)
	near, far := &c.ends[0], &c.ends[1]
	near.local, near.remote, far.local, far.remote = outside.LocalAddr(), outside.RemoteAddr(), outside.RemoteAddr(), outside.LocalAddr()
	for _, way := range [][2]net.Conn{{outside, far}, {far, outside}} {
		go func() {
			_, _ = io.Copy(way[0], way[1])
			_ = outside.Close()
			_ = far.Close()
		}()
	}
	return near
}
