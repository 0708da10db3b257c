package recovery

import (
	"github.com/oscarfed/oscarfed/controlplane/view"
	"github.com/oscarfed/oscarfed/store/record"
)

// A syncer that saw the store go back changes nothing until there is a new epoch. An instance that
// has seen nothing before goes on. The report of a syncer begins no epoch: a hostile one could
// begin epochs without end, and each closes the store for everybody. A person is told.

// sawRestore says whether a syncer reports that the store has gone back in this epoch.
func sawRestore(self *record.ObservedCluster) bool {
	return self != nil && self.Reason == record.ReasonStoreRestored
}

// warnOfRestore tells once that a syncer has begun to report it.
func (c *Controller) warnOfRestore(r view.Reported[record.ObservedCluster]) {
	if sawRestore(r.New) && !sawRestore(r.Old) {
		c.cfg.Logger.Warn("a syncer saw the store go back to an older state; unless a new epoch follows, start one control plane with --restored, once",
			"cluster", r.Cluster)
	}
}

// restoresSeen counts the connected clusters that report it.
func (c *Controller) restoresSeen() (n float64) {
	c.state.Read(func(v *view.View) {
		for _, node := range v.Nodes.All() {
			if node.Session.Rec != nil && sawRestore(node.Self.Rec) {
				n++
			}
		}
	})
	return n
}
