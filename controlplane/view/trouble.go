package view

import (
	"fmt"
	"time"

	"github.com/oscarfed/oscarfed/store/record"
)

// Trouble is why nothing can be done on a cluster although its syncer is connected. The syncer
// reports it. The zero value is none.
type Trouble struct {
	Reason  record.Reason
	Message string
	// Away says that this has lasted so long that no request waits for the cluster any more.
	Away bool
}

// MaxTrouble bounds, in bytes, a syncer's message about its cluster.
const MaxTrouble = 600

// Trouble is why nothing can be done on a cluster although its syncer is connected.
func (v *View) Trouble(cluster string) Trouble {
	n := v.Nodes.m[cluster]
	if n == nil || n.Session.Rec == nil || n.Self.Rec == nil {
		return Trouble{}
	}
	switch self := n.Self.Rec; self.Reason {
	case record.ReasonOscarUnreachable, record.ReasonStorageUnreachable, record.ReasonCredentialRefused, record.ReasonNoLease:
		out := Trouble{Reason: self.Reason, Message: Shorten(self.Message, MaxTrouble), Away: self.Away}
		if out.Message == "" { // an older syncer gives none
			out.Message = "the syncer cannot work with its OSCAR"
		}
		return out
	}
	return Trouble{}
}

// WhyAway says why a cluster is away; empty when it is not.
func (r ReplicaState) WhyAway() string {
	switch {
	case !r.Alive:
		return Away(r.LastSeen)
	case r.Trouble.Away:
		return r.Trouble.Message
	case r.SameOscarAs != "":
		return fmt.Sprintf("its OSCAR is that of cluster %q, too", r.SameOscarAs)
	case r.Stopped:
		return "the cluster is paused"
	}
	return ""
}

// Away says that a cluster has no syncer, and since when.
func Away(lastSeen *time.Time) string {
	if lastSeen == nil {
		return "no syncer is connected"
	}
	return "no syncer since " + lastSeen.UTC().Format(time.RFC3339)
}
