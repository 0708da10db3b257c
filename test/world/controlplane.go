package world

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"time"

	"github.com/oscarfed/oscarfed/api/apitest"
	"github.com/oscarfed/oscarfed/api/client"
	"github.com/oscarfed/oscarfed/api/server"
	"github.com/oscarfed/oscarfed/controlplane"
	"github.com/oscarfed/oscarfed/controlplane/identity"
	"github.com/oscarfed/oscarfed/internal/boot"
	"github.com/oscarfed/oscarfed/store/access"
	"github.com/oscarfed/oscarfed/store/seal"
	"github.com/oscarfed/oscarfed/test/await"
)

// instance is a control plane that runs, or ran, and what carries its connections.
type instance struct {
	host string
	task testTask
	link *Link
}

// instance is a control plane that runs, or ran.
func (w *World) instance(cp *controlplane.ControlPlane) instance {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.instances[cp]
}

// Restart stops the first control plane, if it runs, and starts it with its API.
func (w *World) Restart(mutate ...func(*controlplane.Config)) {
	w.T.Helper()
	if w.CP != nil {
		w.StopControlPlane(w.CP)
	}
	w.CP = w.StartControlPlane(HostControlPlane, append(mutate, func(c *controlplane.Config) {
		if c.Witness == "" {
			c.Witness = w.witness
		}
	})...)
	w.API = w.Serve(w.CP)
	w.Client = w.ClientOf(w.API)
}

// ClientOf is an administrator's client of an API.
func (w *World) ClientOf(api string) *client.Client {
	w.T.Helper()
	return Must(client.New(client.Config{Endpoint: api, User: User, Password: Password, Transport: w.transport}))(w.T)
}

// Unhurried restarts the first control plane with deadlines that no busy machine misses:
// those of the test were for creations that do not succeed.
func (w *World) Unhurried() {
	w.T.Helper()
	w.Restart(func(c *controlplane.Config) { c.ApplyGrace, c.PrepareDeadline = await.Limit, await.Limit })
}

// Identity is the control planes' key.
func (w *World) Identity() *seal.Identity { return w.identity }

// StartControlPlane starts one more instance over the same etcd and key, on a host.
func (w *World) StartControlPlane(host string, mutate ...func(*controlplane.Config)) *controlplane.ControlPlane {
	w.T.Helper()
	link := NewLink(w.at(host))
	as := w.as(access.ControlPlane, link)
	if w.opts.Store != nil {
		w.opts.Store(&as)
	}
	cfg := controlplane.Config{
		Store: w.open(as), Identity: w.identity,
		Dial: link.DialContext, Now: w.opts.Now, Logger: w.Log.Logger(),
	}
	if !w.virtual() {
		cfg.LostAfter = time.Second
	}
	if len(w.opts.Clusters) > 0 {
		cfg.DefaultCluster = w.opts.Clusters[0]
	}
	if w.users != nil {
		how := w.users.access(w.as(access.Root, link))
		cfg.Access, cfg.Users = how, how
	}
	if w.opts.ControlPlane != nil {
		w.opts.ControlPlane(&cfg)
	}
	for _, m := range mutate {
		m(&cfg)
	}
	cp := Must(controlplane.New(cfg))(w.T)
	started := instance{host: host, task: background(w.ctx, w.T, cp.Run), link: link}
	w.mu.Lock()
	w.instances[cp] = started
	w.mu.Unlock()
	limit := await.Limit
	if w.virtual() { // etcd may be away for hours
		limit = 100 * time.Hour
	}
	select {
	case <-cp.Ready():
	case <-time.After(limit):
		w.T.Fatal("the control plane does not get ready")
	}
	return cp
}

// StopControlPlane stops an instance that StartControlPlane started.
func (w *World) StopControlPlane(cp *controlplane.ControlPlane) {
	w.front.remove(cp)
	stopped := w.instance(cp)
	stopped.task.stop()
	w.killHost(stopped.host)
}

// KillControlPlane ends an instance as SIGKILL does: the connections that it has made break off.
func (w *World) KillControlPlane(cp *controlplane.ControlPlane) {
	w.front.remove(cp)
	killed := w.instance(cp)
	killed.link.Cut()
	w.killHost(killed.host)
	killed.task.Cancel()
}

// Serve puts the API before a control plane. Every answer is held against the
// API's description.
func (w *World) Serve(cp *controlplane.ControlPlane) string {
	w.T.Helper()
	auth := identity.Schemes{Basic: Must(identity.NewBasic(User, Password))(w.T)}
	if w.opts.Issuer != nil {
		auth.Bearer = w.authenticator(cp)
	}
	cfg := server.Config{UseCases: boot.UseCases(cp), Authenticator: auth, Logger: w.Log.Logger(), Now: w.opts.Now}
	if w.opts.API != nil {
		w.opts.API(&cfg)
	}
	handler := apitest.Handler(w.T, server.New(cfg).Handler())
	if w.opts.Middleware != nil {
		handler = w.opts.Middleware(handler)
	}
	srv := w.server(w.listenerOf(w.instance(cp).host))
	srv.Config.Handler = handler
	if w.opts.TLS {
		srv.StartTLS()
		w.trust(srv.Certificate())
	} else {
		srv.Start()
	}
	w.front.add(cp, srv.URL)
	return srv.URL
}

// trust lets the world's own clients accept the API's certificate.
func (w *World) trust(cert *x509.Certificate) {
	pool := x509.NewCertPool()
	pool.AddCert(cert)
	w.transport.TLSClientConfig = &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}
	w.CA = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert.Raw})
}
