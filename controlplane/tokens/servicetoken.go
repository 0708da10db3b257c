package tokens

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"fmt"
	"strconv"

	"github.com/oscarfed/oscarfed/controlplane/identity"
	"github.com/oscarfed/oscarfed/controlplane/view"
	"github.com/oscarfed/oscarfed/store/record"
)

// ServiceCaller authenticates a service of that name by its own token. It returns
// identity.ErrUnauthenticated (wrapped) for every invalid token, whether there is a service of
// the name or not: the token is looked up by its hash among the marks of all services, and only
// then compared with the name, so that neither answer nor time reveals which names exist. A
// token is valid for one life of its service, and until it is rotated.
func (c *Controller) ServiceCaller(ctx context.Context, service, token string) (identity.Caller, error) {
	// A change by another instance must count here at once: both for a token that was just
	// revoked and for one that was just made.
	if err := c.gate.Fresh(ctx); err != nil {
		return identity.Caller{}, err
	}
	if uid := c.replicaOfControlPlaneToken(service, token); uid != "" {
		return identity.OfService(uid), nil
	}
	if uid := c.replicaOfToken(record.Mark(token), service); uid != "" {
		caller := identity.OfService(uid)
		caller.LifeToken = true
		return caller, nil
	}
	return identity.Caller{}, fmt.Errorf("%w: it is no token of this service", identity.ErrUnauthenticated)
}

// replicaOfToken is the uid of the replica with the mark and the name. It is empty for none,
// and for one whose tokens were rotated: its mark cannot change.
func (c *Controller) replicaOfToken(mark, service string) (uid string) {
	c.state.Read(func(v *view.View) {
		at, ok := v.Marked.Lookup(mark)
		if !ok || at.Service != service {
			return
		}
		d := v.Desired(at.Cluster, at.Service).Rec
		if d == nil || d.Mark != mark || d.Tombstone() {
			return
		}
		if f := v.Federations.Get(d.Federation).Rec; f != nil && f.TokenRotation == 0 && f.Phase != record.PhaseDeleting && !f.Phase.Result() {
			uid = d.UID
		}
	})
	return uid
}

// ServiceToken is the token of one life of a replica: an HMAC of its uid, so that
// every instance knows it and it cannot be guessed.
func (c *Controller) ServiceToken(replicaUID string) string {
	mac := hmac.New(sha256.New, c.tokenKey)
	mac.Write([]byte(replicaUID))
	return hex.EncodeToString(mac.Sum(nil))
}

// A service has two tokens. The service token of its life is our mark at its OSCAR and never
// changes. The control-plane token authenticates it at the control plane (/job, /run, its
// replicas). It is rotated when fewer users may see the service, or when its owner says so:
// users that had read it cannot use it any more.

// ControlPlaneToken is an HMAC of a replica's uid and of the number of rotations of its
// federation, so it is stored nowhere.
func (c *Controller) ControlPlaneToken(replicaUID string, rotation int64) string {
	mac := hmac.New(sha256.New, c.controlPlaneKey)
	mac.Write([]byte(replicaUID + "/" + strconv.FormatInt(rotation, 10)))
	return hex.EncodeToString(mac.Sum(nil))
}

// replicaOfControlPlaneToken is the uid of the replica of that name that has the control-plane
// token; empty for none. Without any replica of the name it takes as long.
func (c *Controller) replicaOfControlPlaneToken(service, token string) (uid string) {
	try := func(replica string, rotation int64) {
		if subtle.ConstantTimeCompare([]byte(c.ControlPlaneToken(replica, rotation)), []byte(token)) == 1 {
			uid = replica
		}
	}
	c.state.Read(func(v *view.View) {
		try("", 0)
		uid = ""
		for id := range v.Named.Of(service) {
			f := v.Federations.Get(id).Rec
			if f.Phase == record.PhaseDeleting || f.Phase.Result() {
				continue
			}
			for _, m := range f.Members {
				d := v.Desired(m.ClusterID, m.ServiceName).Rec
				if m.Replica() && m.ServiceName == service && d != nil && d.UID == m.UID && !d.Tombstone() {
					try(m.UID, f.TokenRotation)
				}
			}
		}
	})
	return uid
}
