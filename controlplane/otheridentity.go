package controlplane

import (
	"github.com/oscarfed/oscarfed/store/record"
	"github.com/oscarfed/oscarfed/store/seal"
)

// recipient is the key that secrets for a cluster are sealed to: the one that it has joined
// with or, of a cluster that was not asked to join, the one that its syncer tells. So a
// stolen certificate alone does not name itself a recipient. It is empty as long as no
// syncer was there.
func (v *View) recipient(cluster string) string {
	n := v.nodes[cluster]
	if n == nil || n.self.rec == nil || n.self.rec.Recipient == "" {
		return ""
	}
	if reg, ok := v.clusters[cluster]; ok && reg.rec.Joined != nil {
		return reg.rec.Joined.Recipient
	}
	return n.self.rec.Recipient
}

// sealsTo is recipient, with what its syncer says that it can open.
func (v *View) sealsTo(cluster string) seal.Recipient {
	out := seal.Recipient{Key: v.recipient(cluster)}
	if out.Key != "" {
		out.Shared = v.nodes[cluster].self.rec.SharedKeys
	}
	return out
}

// otherIdentity says whether what a syncer tells of itself is not what the cluster has
// joined with.
func otherIdentity(joined *record.Joined, told *record.ObservedCluster) bool {
	if joined == nil {
		return false
	}
	return told.Recipient != "" && told.Recipient != joined.Recipient ||
		told.KubeSystemUID != "" && joined.KubeSystemUID != "" && told.KubeSystemUID != joined.KubeSystemUID
}
