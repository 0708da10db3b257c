package view

import (
	"github.com/oscarfed/oscarfed/store/record"
	"github.com/oscarfed/oscarfed/store/seal"
)

// Recipient is the key that secrets for a cluster are sealed to: the key that it joined with
// or, for a cluster that was not asked to join, the key that its syncer reports. So a stolen
// certificate alone cannot name itself a recipient. It is empty until a syncer has connected.
func (v *View) Recipient(cluster string) string {
	n := v.Nodes.m[cluster]
	if n == nil || n.Self.Rec == nil || n.Self.Rec.Recipient == "" {
		return ""
	}
	if reg, ok := v.Clusters.m[cluster]; ok && reg.Rec.Joined != nil {
		return reg.Rec.Joined.Recipient
	}
	return n.Self.Rec.Recipient
}

// SealsTo is Recipient together with the keys that its syncer says it can open.
func (v *View) SealsTo(cluster string) seal.Recipient {
	out := seal.Recipient{Key: v.Recipient(cluster)}
	if out.Key != "" {
		out.Shared = v.Nodes.m[cluster].Self.Rec.SharedKeys
	}
	return out
}

// OtherIdentity says whether a syncer reports another identity than the cluster joined with.
func OtherIdentity(joined *record.Joined, told *record.ObservedCluster) bool {
	if joined == nil {
		return false
	}
	return told.Recipient != "" && told.Recipient != joined.Recipient ||
		told.KubeSystemUID != "" && joined.KubeSystemUID != "" && told.KubeSystemUID != joined.KubeSystemUID
}

// One OSCAR that is registered under two ids has two syncers, and each takes the services of
// the other one for unknown ones. The first registration keeps the OSCAR. The control plane
// writes nothing for the others and places nothing on them until one is removed.

// OscarID identifies the OSCAR of a cluster. It is empty when it is not known.
func (v *View) OscarID(cluster string) string {
	reg, registered := v.Clusters.m[cluster]
	if !registered {
		return ""
	}
	if n := v.Nodes.m[cluster]; n != nil && n.Self.Rec != nil && n.Self.Rec.OscarID != "" {
		return n.Self.Rec.OscarID
	}
	if reg.Rec.Joined != nil {
		return reg.Rec.Joined.OscarID
	}
	return ""
}

// RegisteredAs is the first cluster, other than the given one, that an OSCAR is registered as.
// It is empty for none.
func (v *View) RegisteredAs(id, other string) string {
	first := ""
	for cluster := range v.oscars.Of(id) {
		if cluster != other && (first == "" || earlier(v.Clusters.m[cluster].Rec, v.Clusters.m[first].Rec)) {
			first = cluster
		}
	}
	return first
}

// WithOscarOf has the clusters that have to do with a cluster's OSCAR: that cluster, those with the
// same OSCAR, and those that were told to have it.
func (v *View) WithOscarOf(cluster string) map[string]bool {
	out := map[string]bool{cluster: true}
	for other := range v.oscars.Of(v.OscarID(cluster)) {
		out[other] = true
	}
	for other := range v.told.Of(cluster) {
		out[other] = true
	}
	return out
}

func (v *View) toldSame(cluster string, d *record.DesiredCluster, is bool) {
	if d != nil && d.SameOscarAs != "" {
		v.told.mark(d.SameOscarAs, cluster, is)
	}
}

// ofOscar notes which OSCAR a cluster is registered as, or takes that back.
func (v *View) ofOscar(cluster string, is bool) {
	if id := v.OscarID(cluster); id != "" {
		v.oscars.mark(id, cluster, is)
	}
}

// SameOscarAs is the cluster that a cluster's OSCAR was registered as before.
func (v *View) SameOscarAs(cluster string) string {
	reg, registered := v.Clusters.m[cluster]
	if !registered || reg.Rec.Removal != nil { // what is removed has its tombstones to see to
		return ""
	}
	first := v.RegisteredAs(v.OscarID(cluster), cluster)
	if first == "" || earlier(reg.Rec, v.Clusters.m[first].Rec) {
		return ""
	}
	return first
}

func earlier(a, b *record.Cluster) bool {
	if !a.RegisteredAt.Equal(b.RegisteredAt.Time) {
		return a.RegisteredAt.Before(b.RegisteredAt.Time)
	}
	return a.UID < b.UID
}

// Elsewhere names the other cluster that an orphan belongs to: the one in its mark, or the one
// on which the store knows this life. It is empty for none.
func (v *View) Elsewhere(cluster string, o record.Orphan) string {
	if o.ClusterID != "" && o.ClusterID != cluster {
		return o.ClusterID
	}
	for other, n := range v.Nodes.m {
		if d := n.Desired.m[o.ServiceName].Rec; other != cluster && d != nil && d.UID == o.UID {
			return other
		}
	}
	if d, known := v.Deleted.m[o.UID]; known && d.Rec.ClusterID != cluster {
		return d.Rec.ClusterID
	}
	return ""
}
