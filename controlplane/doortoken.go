package controlplane

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"errors"
	"slices"
	"strconv"

	"github.com/oscarfed/oscarfed/api/oscar"
	"github.com/oscarfed/oscarfed/controlplane/identity"
	"github.com/oscarfed/oscarfed/store/record"
)

// A service has two tokens. That of its life is our mark at its OSCAR, which never changes
// it. The other opens the doors of the control plane (/job, /run, its replicas): whoever
// has read it there loses it when fewer may see the service, or its owner says so.

// doorToken is an HMAC of a replica's uid and of how often its federation has changed its
// tokens, so that it is nowhere to be stored.
func (c *ControlPlane) doorToken(replicaUID string, rotation int64) string {
	mac := hmac.New(sha256.New, c.doorKey)
	mac.Write([]byte(replicaUID + "/" + strconv.FormatInt(rotation, 10)))
	return hex.EncodeToString(mac.Sum(nil))
}

// bearerOfDoor is the uid of the replica of that name whose door token it is; empty for
// none. Without any replica of the name it takes as long.
func (c *ControlPlane) bearerOfDoor(service, token string) (uid string) {
	try := func(replica string, rotation int64) {
		if subtle.ConstantTimeCompare([]byte(c.doorToken(replica, rotation)), []byte(token)) == 1 {
			uid = replica
		}
	}
	c.state.read(func(v *View) {
		try("", 0)
		uid = ""
		for id := range v.named[service] {
			f := v.federations[id].rec
			if f.Phase == record.PhaseDeleting || f.Phase.Result() {
				continue
			}
			for _, m := range f.Members {
				d := v.desired(m.ClusterID, m.ServiceName).rec
				if m.Replica() && m.ServiceName == service && d != nil && d.UID == m.UID && !d.Tombstone() {
					try(m.UID, f.TokenRotation)
				}
			}
		}
	})
	return uid
}

// narrowed says whether fewer may see a federation than before.
func narrowed(old, next *record.Federation) bool {
	width := func(f *record.Federation) int {
		switch f.Visibility {
		case oscar.VisibilityPublic:
			return 2
		case oscar.VisibilityRestricted:
			return 1
		}
		return 0
	}
	if width(next) != width(old) {
		return width(next) < width(old)
	}
	return width(next) == 1 && slices.ContainsFunc(old.AllowedUsers, func(user string) bool { return !slices.Contains(next.AllowedUsers, user) })
}

// RotateToken gives every service of a federation another token for the doors of the
// control plane. The ones before are refused there from then on, those of their lives
// as well; at its OSCAR nothing changes.
func (c *ControlPlane) RotateToken(ctx context.Context, caller identity.Caller, service, clusterID, request string) (*Replicas, error) {
	request = requestID(request)
	for {
		if err := c.fresh(ctx); err != nil {
			return nil, err
		}
		p, _, err := c.changeable(change{caller: caller, service: service, clusterID: clusterID})
		if err != nil {
			return nil, err
		}
		err = c.writeRotation(ctx, caller, p, request)
		if errors.Is(err, errStale) {
			continue
		}
		if err != nil {
			return nil, crossing(err)
		}
		return c.Replicas(ctx, caller, service, clusterID)
	}
}

func (c *ControlPlane) writeRotation(ctx context.Context, caller identity.Caller, p place, request string) error {
	s, rev, ok := c.decider.situation(p.uid)
	if !ok || rev != p.rev {
		return errStale
	}
	next := s.fed
	next.TokenRotation++
	next.RequestID, next.By, next.ChangedAt = request, caller.Subject, record.At(s.now)
	d := decision{name: "rotate_token", fed: &next}
	return c.orderStep(ctx, s, rev, d)
}
