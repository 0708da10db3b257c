package world

import (
	"net"
	"net/http"
	"net/http/httptest"
	"time"

	"github.com/oscarfed/oscarfed/test/wire"
)

// Hosts of a world's wire, besides those of its control planes and clusters.
const (
	HostEtcd = "etcd"
	// HostUsers is where the world's own clients are.
	HostUsers = "users"
	// HostFront stands before all control planes.
	HostFront = "front"
	// HostControlPlane is the first control plane.
	HostControlPlane = "control-plane-0"
)

// HostOSCAR is where a cluster's OSCAR is, HostSyncer where its syncer is.
func HostOSCAR(cluster string) string { return "oscar-" + cluster }

// HostSyncer is where the syncer of a cluster is.
func HostSyncer(cluster string) string { return "syncer-" + cluster }

// shortestDelay is what each message takes at least on a wire: an answer comes after its
// question, also on a clock that stands still meanwhile.
const shortestDelay = 200 * time.Microsecond

// at is the network as a process on a host sees it. Without a wire all hosts are this machine.
func (w *World) at(host string) Network {
	if w.opts.Wire != nil {
		return w.opts.Wire.Host(host)
	}
	return Loopback{}
}

// killHost ends the process on a host of a wire.
func (w *World) killHost(host string) {
	if w.opts.Wire != nil {
		w.opts.Wire.Host(host).Kill()
	}
}

// server makes a server that is not started. Whatever is open to it is closed at the test's end.
func (w *World) server(at net.Listener) *httptest.Server {
	w.T.Helper()
	server := &httptest.Server{Listener: at, Config: &http.Server{}}
	w.T.Cleanup(func() {
		server.CloseClientConnections()
		server.Close()
	})
	return server
}

// listener listens on a host, at an address of an earlier process on a wire, or at a free one.
func (w *World) listener(host, address string) net.Listener {
	w.T.Helper()
	if w.opts.Wire != nil && address != "" {
		return Must(w.opts.Wire.Host(host).ListenAt(w.T.Context(), address))(w.T)
	}
	return Must(w.at(host).Listen(w.T.Context()))(w.T)
}

// startWire gives every message its shortest delay. What happened on the wire is told when the
// test fails.
func (w *World) startWire() {
	w.opts.Wire.AddRule("*", "*", wire.Rule{Delay: shortestDelay})
	w.T.Cleanup(func() {
		if err := w.opts.Wire.Close(); err != nil {
			w.T.Error(err)
		}
		if w.T.Failed() {
			for _, e := range w.opts.Wire.Trace() {
				w.T.Log(e)
			}
		}
	})
}

// listenerOf is at the address where the API of a control plane's host was before, if it was.
func (w *World) listenerOf(host string) net.Listener {
	w.T.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	l := w.listener(host, w.addresses[host])
	w.addresses[host] = l.Addr().String()
	return l
}
