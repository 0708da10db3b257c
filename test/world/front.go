package world

import (
	"net/http"
	"net/http/httputil"
	"net/url"
	"sync"
	"time"

	"github.com/oscarfed/oscarfed/controlplane"
	"github.com/oscarfed/oscarfed/controlplane/identity"
	"github.com/oscarfed/oscarfed/syncer"
	"github.com/oscarfed/oscarfed/syncer/relay"
)

// front is what stands before all instances of the control plane: one address, and each
// request goes to the next instance. The syncers' streams come through it.
type front struct {
	url string

	mu   sync.Mutex
	apis []upstream
	next int
}

type upstream struct {
	of  *controlplane.ControlPlane
	url *url.URL
}

func newFront(w *World) *front {
	w.T.Helper()
	f := &front{}
	server := w.server(w.listener(HostFront, ""))
	server.Config.Handler = &httputil.ReverseProxy{
		Transport: w.transport,
		Rewrite: func(r *httputil.ProxyRequest) {
			if to := f.pick(); to != nil {
				r.SetURL(to)
			}
		},
		ErrorHandler: func(w http.ResponseWriter, _ *http.Request, _ error) { w.WriteHeader(http.StatusServiceUnavailable) },
	}
	server.Start()
	f.url = server.URL
	return f
}

func (f *front) pick() *url.URL {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.apis) == 0 {
		return nil
	}
	f.next++
	return f.apis[f.next%len(f.apis)].url
}

func (f *front) add(cp *controlplane.ControlPlane, address string) {
	u, err := url.Parse(address)
	if err != nil {
		panic(err) // httptest made it
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.apis = append(f.apis, upstream{cp, u})
}

func (f *front) remove(cp *controlplane.ControlPlane) {
	f.mu.Lock()
	defer f.mu.Unlock()
	kept := f.apis[:0:0]
	for _, a := range f.apis {
		if a.of != cp {
			kept = append(kept, a)
		}
	}
	f.apis = kept
}

// stream is what a cluster's syncer keeps its streams with.
func (w *World) stream(cluster string, over *Link) syncer.Relay {
	w.T.Helper()
	cfg := relay.Config{ControlPlane: w.front.url, Dial: over.DialContext, Logger: w.Log.Logger().With("cluster", cluster)}
	if !w.virtual() { // real time is dear
		cfg.FirstPause, cfg.LastPause, cfg.Look = 20*time.Millisecond, 500*time.Millisecond, time.Second
	}
	if w.opts.Stream != nil {
		w.opts.Stream(&cfg)
	}
	return Must(relay.New(cfg))(w.T)
}

// AwaitStreams waits until every cluster has a stream to an instance.
func (w *World) AwaitStreams(cp *controlplane.ControlPlane) {
	w.T.Helper()
	for id := range w.clusters {
		w.Eventually("a stream of "+id, func() bool {
			c, err := cp.Clusters.Get(w.T.Context(), identity.Caller{Subject: identity.Admin, Administrator: true}, id)
			return err == nil && c.Stream
		})
	}
}
