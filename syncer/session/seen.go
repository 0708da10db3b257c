package session

import (
	"time"

	"github.com/oscarfed/oscarfed/store"
	"github.com/oscarfed/oscarfed/store/record"
)

// Seen is how far a syncer has seen the store. One that starts compares the store with what the one before it on this
// disk has seen: an etcd that was restored looks like any other.
type Seen struct {
	// UID is that of the registration of the cluster, Epoch the one that it named, and Began when that began; zero for
	// the first.
	UID      string    `json:"uid,omitempty"`
	Epoch    string    `json:"epoch"`
	Began    time.Time `json:"began,omitzero"`
	Revision int64     `json:"revision,omitempty"`
}

// Seen is what a view shows; zero where the cluster is not registered.
func (c *Cluster) Seen(view *store.MirrorView) Seen {
	reg := c.DesiredCluster(view)
	if reg == nil {
		return Seen{}
	}
	out := Seen{UID: reg.UID, Epoch: reg.Epoch, Revision: view.Revision()}
	if reg.RestoredAt != nil {
		out.Began = reg.RestoredAt.Time
	}
	return out
}

// lostIn says whether a view shows an older state of the store than was seen: it was restored, and no control plane has
// begun another epoch since.
func (c *Cluster) lostIn(view *store.MirrorView, seen Seen) bool {
	now := c.Seen(view)
	if seen.Revision == 0 || now.UID != seen.UID {
		return false
	}
	if now.Epoch != seen.Epoch {
		// A later one began later by the clocks of control planes, and its record was written later, unless the revisions
		// were not raised.
		kv, _ := view.KV(record.DesiredClusterKey(c.ID))
		return now.Began.Before(seen.Began) && kv.ModRevision <= seen.Revision
	}
	return now.Revision < seen.Revision || store.Leapt(seen.Revision, now.Revision)
}

// Recall compares the store with what was seen of it before this process, before anything is decided.
func (c *Cluster) Recall(seen Seen, view *store.MirrorView) {
	if c.lostIn(view, seen) {
		c.wentBack(seen, c.Seen(view))
	}
}

// Relisted looks at each listing of the mirror before anything is decided on it.
func (c *Cluster) Relisted(r store.Relist) {
	before, now := c.Seen(r.Before), c.Seen(r.Now)
	switch {
	case c.lostIn(r.Now, before), r.Restored && (before.UID == "" || before.Epoch == now.Epoch):
		c.wentBack(before, now)
	case r.Restored:
		c.Log.Warn("etcd was restored from an older state, and has a new epoch; everything is compared", "epoch", now.Epoch, "before", before.Epoch)
		c.Compare.Send()
	}
}

// wentBack has nothing concluded from the store until it has another epoch.
func (c *Cluster) wentBack(seen, now Seen) {
	if now.UID != "" {
		c.restored.Store(&now.Epoch)
	}
	c.Log.Warn("etcd was restored from an older state; nothing is written to OSCAR until a control plane has begun another epoch", "seen_revision", seen.Revision, "revision", now.Revision)
	c.Compare.Send()
}

// Restored says that etcd has gone back to an older state in this epoch, and that no
// control plane has begun another one since. While it lasts, nothing is written to OSCAR.
func (c *Cluster) Restored(reg *record.DesiredCluster) bool {
	epoch := c.restored.Load()
	return epoch != nil && reg != nil && reg.Epoch == *epoch
}
