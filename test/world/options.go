package world

import (
	"net/http"
	"time"

	"github.com/oscarfed/oscarfed/api/server"
	"github.com/oscarfed/oscarfed/controlplane"
	"github.com/oscarfed/oscarfed/internal/oscarsim"
	"github.com/oscarfed/oscarfed/store"
	"github.com/oscarfed/oscarfed/store/embedded"
	"github.com/oscarfed/oscarfed/syncer"
	"github.com/oscarfed/oscarfed/syncer/relay"
	"github.com/oscarfed/oscarfed/test/invariants"
	"github.com/oscarfed/oscarfed/test/wire"
)

// User and Password of the administrator, of the API and of every OSCAR.
const (
	User     = "oscar"
	Password = "not-a-real-password"
)

// Options of a world. The zero value is three quick clusters.
type Options struct {
	// Clusters are the ids; default (nil) oscar-cluster-a, -b and -c.
	Clusters []string
	// Sim changes the simulated OSCARs' configuration.
	Sim func(*oscarsim.Config)
	// Etcd changes etcd's configuration.
	Etcd func(*embedded.Config)
	// Unguarded says that the test itself checks the promises, at every revision.
	Unguarded bool
	// Endpoints are those of an etcd that runs already; without them one is started on the
	// loopback.
	Endpoints []string
	// Wire is the network that everything listens on and dials through, in virtual time: the test
	// runs in a bubble of testing/synctest. nil is the loopback of this machine, and real time.
	Wire *wire.Network
	// TLS serves the APIs with a certificate; World.CA is its authority.
	TLS bool
	// Middleware stands before each API.
	Middleware func(http.Handler) http.Handler
	// Now is the clock of the control planes; default: time.Now.
	Now func() time.Time
	// Forgets says that etcd's history will not be complete at the end: the promises
	// are then checked while it is made.
	Forgets bool
	// Store changes how the control planes reach etcd.
	Store func(*store.Config)
	// ControlPlane changes the control planes' configuration.
	ControlPlane func(*controlplane.Config)
	// API changes the configuration of the control planes' APIs.
	API func(*server.Config)
	// Stream changes the configuration of the syncers' streams.
	Stream func(*relay.Config)
	// Syncer changes the syncers' configuration.
	Syncer func(*syncer.Config)
	// Names are service and bucket names that the test will use: each cluster
	// gets a foreign service and a foreign bucket under names that look like them.
	// Without names the canaries stand all the same, under names of their own.
	Names []string
	// Breaks are promises that the test itself breaks on purpose.
	Breaks []invariants.Rule
	// Secrets are canary secrets that must be found nowhere in etcd.
	Secrets []string
	// Guarded gives etcd TLS and users: each control plane and each syncer has its own
	// certificate and rights. World.Store is root's.
	Guarded bool
	// Issuer is that whose users the API and every OSCAR let in when they are in Group;
	// nil lets in the administrator alone.
	Issuer Issuer
	// IssuerAway says that the issuer may be away when a control plane starts: nobody waits until it is
	// known.
	IssuerAway bool
	// IdentityFile is where the control planes' key is; without one it is in memory.
	IdentityFile string
	// Restorable lets another etcd take the place of the first one.
	Restorable bool
	// OriginStorage lets workers use the MinIO of their origin: every syncer answers its
	// OSCAR, and every simulated MinIO says that it lives.
	OriginStorage bool
}

func (o Options) withDefaults() Options {
	if o.Clusters == nil {
		o.Clusters = []string{"oscar-cluster-a", "oscar-cluster-b", "oscar-cluster-c"}
	}
	if o.Names == nil {
		o.Names = []string{"canary"}
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	return o
}
