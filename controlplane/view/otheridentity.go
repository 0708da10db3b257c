package view

import (
	"github.com/oscarfed/oscarfed/store/record"
	"github.com/oscarfed/oscarfed/store/seal"
)

// Recipient is the key that secrets for a cluster are sealed to: the one that it has joined
// with or, of a cluster that was not asked to join, the one that its syncer tells. So a
// stolen certificate alone does not name itself a recipient. It is empty as long as no
// syncer was there.
func (v *View) Recipient(cluster string) string {
	n := v.Nodes[cluster]
	if n == nil || n.Self.Rec == nil || n.Self.Rec.Recipient == "" {
		return ""
	}
	if reg, ok := v.Clusters[cluster]; ok && reg.Rec.Joined != nil {
		return reg.Rec.Joined.Recipient
	}
	return n.Self.Rec.Recipient
}

// SealsTo is recipient, with what its syncer says that it can open.
func (v *View) SealsTo(cluster string) seal.Recipient {
	out := seal.Recipient{Key: v.Recipient(cluster)}
	if out.Key != "" {
		out.Shared = v.Nodes[cluster].Self.Rec.SharedKeys
	}
	return out
}

// OtherIdentity says whether what a syncer tells of itself is not what the cluster has
// joined with.
func OtherIdentity(joined *record.Joined, told *record.ObservedCluster) bool {
	if joined == nil {
		return false
	}
	return told.Recipient != "" && told.Recipient != joined.Recipient ||
		told.KubeSystemUID != "" && joined.KubeSystemUID != "" && told.KubeSystemUID != joined.KubeSystemUID
}
