package clusters

import (
	"context"
	"fmt"
	"net/url"
	"slices"
	"strings"

	v1 "github.com/oscarfed/oscarfed/api/v1"

	"github.com/oscarfed/oscarfed/api/oscar"
	"github.com/oscarfed/oscarfed/controlplane/decide"
	"github.com/oscarfed/oscarfed/controlplane/fault"
	"github.com/oscarfed/oscarfed/controlplane/gate"
	"github.com/oscarfed/oscarfed/controlplane/hint"
	"github.com/oscarfed/oscarfed/controlplane/identity"
	"github.com/oscarfed/oscarfed/controlplane/request"
	"github.com/oscarfed/oscarfed/controlplane/view"
	"github.com/oscarfed/oscarfed/store"
	"github.com/oscarfed/oscarfed/store/record"
)

// Register makes a cluster known. Only the administrator may. It is another
// cluster than one that had this id before: whatever was desired of that one, and
// whatever it reported, goes in the same transaction.
func (c *Controller) Register(ctx context.Context, caller identity.Caller, spec Spec) (*Cluster, error) {
	if err := clusterRequest(caller, spec); err != nil {
		return nil, err
	}
	release, err := c.gate.ReserveSpace(gate.RegistrationBytes)
	if err != nil {
		return nil, err
	}
	defer release()
	if err := c.gate.Fresh(ctx); err != nil {
		return nil, err
	}
	reg := record.Cluster{
		V: record.Version, ClusterID: spec.ClusterID, UID: record.NewUID(), State: record.ClusterActive,
		RegisteredAt: record.At(c.cfg.Now()),
	}
	apply(&reg, spec)
	key := record.ClusterKey(spec.ClusterID)
	return c.writeCluster(ctx, []string{key, record.FenceKey, record.MetaKey}, spec.ClusterID, func(v store.View, tx *store.Txn) error {
		if kv, ok := v.KV(key); ok {
			old, err := store.Decode[record.Cluster](kv)
			if err == nil && old.UID == reg.UID {
				return nil // our own first try
			}
			return &fault.Error{Code: fault.CodeAlreadyExists, Message: fmt.Sprintf("cluster %q is registered already; change it instead: oscarfed cluster set", spec.ClusterID)}
		}
		kv, ok := v.KV(record.MetaKey)
		if !ok {
			return gate.ErrNoStore
		}
		meta, err := store.Decode[record.Meta](kv)
		if err != nil {
			return err
		}
		tx.Expect(record.MetaKey)
		tx.ExpectAbsent(key)
		tx.Put(key, reg)
		clearTree(tx, spec.ClusterID)
		tx.Put(record.DesiredClusterKey(spec.ClusterID), record.DesiredCluster{
			V: record.Version, ClusterID: reg.ClusterID, UID: reg.UID, ControlPlane: meta.ControlPlane,
			Epoch: meta.Epoch, State: reg.State, RestoredAt: meta.RestoredAt,
		})
		request.Note(tx, c.cfg.Now(), record.Audit{By: caller.Subject, Action: record.ActionRegisterCluster, Outcome: record.OutcomeDone, ClusterID: spec.ClusterID})
		return gate.BumpFence(v, tx, "registered "+spec.ClusterID)
	})
}

// Update replaces what an administrator says of a cluster.
func (c *Controller) Update(ctx context.Context, caller identity.Caller, spec Spec) (*Cluster, error) {
	if err := clusterRequest(caller, spec); err != nil {
		return nil, err
	}
	release, err := c.gate.ReserveSpace(gate.RegistrationBytes)
	if err != nil {
		return nil, err
	}
	defer release()
	key := record.ClusterKey(spec.ClusterID)
	return c.writeCluster(ctx, []string{key, record.FenceKey}, spec.ClusterID, func(v store.View, tx *store.Txn) error {
		kv, ok := v.KV(key)
		if !ok {
			return fault.NotFound(fmt.Sprintf("cluster %q is not registered", spec.ClusterID))
		}
		if err := asGiven(kv, spec.IfMatch); err != nil {
			return err
		}
		reg, err := store.Decode[record.Cluster](kv)
		if err != nil {
			return err
		}
		groups := reg.AllowedGroups
		apply(reg, spec)
		tx.Expect(key)
		tx.Put(key, reg)
		request.Note(tx, c.cfg.Now(), record.Audit{By: caller.Subject, Action: record.ActionUpdateCluster, Outcome: record.OutcomeDone, ClusterID: spec.ClusterID})
		if !slices.Equal(groups, reg.AllowedGroups) {
			return gate.BumpFence(v, tx, "groups of "+spec.ClusterID)
		}
		return nil
	})
}

func (c *Controller) writeCluster(ctx context.Context, keys []string, id string, build func(store.View, *store.Txn) error) (*Cluster, error) {
	res, err := c.store.Update(ctx, store.Update{Keys: keys, Build: build})
	if err != nil {
		return nil, fault.Crossing(err)
	}
	if err := c.gate.Shows(ctx, res.Revision); err != nil {
		return nil, fault.Crossing(err)
	}
	return c.clusterByID(id)
}

// shownTo leaves of a cluster what a user needs to place a service there. Its addresses,
// its keys and what stands on it are the administrator's.
func (c Cluster) shownTo(caller identity.Caller) Cluster {
	if caller.Administrator {
		return c
	}
	return Cluster{Revision: c.Revision, Cluster: v1.Cluster{
		V: c.V, ClusterID: c.ClusterID, Labels: c.Labels, State: c.State, Alive: c.Alive, OscarVersion: c.OscarVersion, Reason: c.Reason, Hint: c.Hint,
	}}
}

// Get shows one registered cluster.
func (c *Controller) Get(ctx context.Context, caller identity.Caller, id string) (*Cluster, error) {
	if err := c.gate.Fresh(ctx); err != nil {
		return nil, err
	}
	out, err := c.clusterByID(id)
	if err != nil {
		return nil, err
	}
	shown := out.shownTo(caller)
	return &shown, nil
}

func (c *Controller) clusterByID(id string) (*Cluster, error) {
	var out *Cluster
	c.state.Read(func(v *view.View) {
		if reg, ok := v.Clusters.Lookup(id); ok {
			value := showCluster(v, reg, c.streamOf)
			out = &value
		}
	})
	if out == nil {
		return nil, fault.NotFound(fmt.Sprintf("cluster %q is not registered", id))
	}
	return out, nil
}

// showCluster is a cluster as callers see it. stream says whether the syncer of a
// registration has a stream to this instance.
func showCluster(v *view.View, of view.Versioned[record.Cluster], stream func(cluster, uid string) bool) Cluster {
	reg := of.Rec
	out := Cluster{Revision: of.Rev, Cluster: v1.Cluster{
		V: 1, ClusterID: reg.ClusterID, UID: reg.UID, Endpoint: reg.Endpoint, SSLVerify: reg.SSLVerify, Labels: reg.Labels,
		State: string(reg.State), AllowedGroups: reg.AllowedGroups, RegisteredAt: v1.Time{Time: reg.RegisteredAt.Time},
		Alive: v.Alive(reg.ClusterID), Stream: stream(reg.ClusterID, reg.UID), LastSeen: v1.Moment(view.TimeOf(reg.LastSeen)),
	}}
	if out.Labels == nil {
		out.Labels = map[string]string{}
	}
	if out.AllowedGroups == nil {
		out.AllowedGroups = []string{}
	}
	if j := reg.Joined; j != nil {
		out.Joined = &v1.ClusterJoined{
			Key: j.Key, KubeSystemUID: j.KubeSystemUID, At: v1.Time{Time: j.At.Time}, ValidUntil: v1.Time{Time: j.ValidUntil.Time},
		}
	}
	if r := reg.Revoked; r != nil {
		out.Revoked = &v1.ClusterRevocation{Message: r.Message, At: v1.Time{Time: r.At.Time}}
	}
	out.Removal = showRemoval(v, reg)
	if n := v.Nodes.Get(reg.ClusterID); n.Session.Rec != nil {
		out.SyncerVersion = n.Session.Rec.Version
	}
	if n := v.Nodes.Get(reg.ClusterID); n.Self.Rec != nil {
		out.showReport(n.Self.Rec)
		if view.OtherIdentity(reg.Joined, n.Self.Rec) {
			out.Reason = string(record.ReasonOtherIdentity)
		}
	}
	if n := v.Nodes.Get(reg.ClusterID); n.DesiredSelf.Rec != nil && n.DesiredSelf.Rec.SameOscarAs != "" {
		out.Reason = string(record.ReasonSameOscar)
	}
	// The end of a session is not noted where no instance ran; what its syncer has reported stays.
	connected := reg.LastSeen != nil || v.Nodes.Get(reg.ClusterID).Self.Rec != nil
	out.Hint = hint.ForCluster(reg.ClusterID, reg.State, out.Alive, connected, record.Reason(out.Reason))
	return out
}

// showRemoval is how far the removal of a cluster has come; nil when it is not being removed.
func showRemoval(v *view.View, reg *record.Cluster) *v1.ClusterRemoval {
	if reg.Removal == nil {
		return nil
	}
	sit, _, _ := decide.RemovalSituation(v, reg.ClusterID)
	out := &v1.ClusterRemoval{
		Orphan: reg.Removal.Orphan, Force: reg.Removal.Force, StartedAt: v1.Time{Time: reg.Removal.StartedAt.Time},
		Federations: max(sit.Members, sit.Leaving), Tombstones: sit.Records,
	}
	if d := decide.Removal(sit); !d.Unregister {
		out.Waits, out.Blocked = d.Waits, d.Blocked
	}
	return out
}

// showReport adds what the syncer says of its OSCAR.
func (c *Cluster) showReport(self *record.ObservedCluster) {
	c.OscarVersion, c.QueueS, c.Reason = self.OscarVersion, self.QueueS, string(self.Reason)
	c.Message = view.Shorten(self.Message, view.MaxTrouble)
	c.MinioEndpoint, c.DeniedRights = self.MinioEndpoint, self.Denied
	for _, o := range self.Orphans {
		c.Orphans = append(c.Orphans, v1.Orphan{ServiceName: o.ServiceName, UID: o.UID, Generation: o.Generation, Reason: string(o.Reason)})
	}
	for _, u := range self.Unlisted {
		c.Unlisted = append(c.Unlisted, v1.Unlisted{ServiceName: u.ServiceName, Reason: string(u.Reason), Message: u.Message})
	}
}

// asGiven refuses a change of a registration that has another revision than its
// caller has seen; 0 demands none.
func asGiven(kv store.KV, ifMatch int64) error {
	if ifMatch == 0 || kv.ModRevision == ifMatch {
		return nil
	}
	return &fault.Error{Code: fault.CodeConflict, Message: "the registration of the cluster has been changed since; GET it again and decide anew"}
}

func clusterRequest(caller identity.Caller, spec Spec) error {
	if !caller.Administrator {
		return fault.AdminOnly("change clusters")
	}
	var v []oscar.Violation
	if !oscar.ValidClusterID(spec.ClusterID) {
		v = append(v, oscar.Violation{Path: "cluster_id", Rule: oscar.RuleName, Value: spec.ClusterID,
			Message: "a cluster id has 1 to 63 letters, digits, dots, dashes and underscores"})
	}
	if u, err := url.Parse(spec.Endpoint); err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" || u.User != nil {
		v = append(v, oscar.Violation{Path: "endpoint", Rule: oscar.RuleType, Value: redactURL(spec.Endpoint),
			Message: "an endpoint is an http or https URL without credentials, such as https://oscar.example.org"})
	}
	v = append(v, oscar.CheckLabels(spec.Labels)...)
	labels := 0
	for key, value := range spec.Labels {
		labels += len(key) + len(value)
	}
	for _, part := range []struct {
		path    string
		n, most int
	}{
		{"endpoint", len(spec.Endpoint), oscar.MaxURLLength},
		{"labels", labels, maxRegistration},
		{"allowed_groups", len(strings.Join(spec.AllowedGroups, "")) + 3*len(spec.AllowedGroups), maxRegistration},
	} {
		if part.n > part.most {
			v = append(v, oscar.Violation{Path: part.path, Rule: oscar.RuleMaxBytes, Value: part.n,
				Message: fmt.Sprintf("%s has %d bytes; the limit is %d", part.path, part.n, part.most)})
		}
	}
	if len(v) > 0 {
		return fault.Invalid(v...)
	}
	return nil
}

// maxRegistration bounds the labels of a cluster, and its groups, in bytes.
const maxRegistration = 64 << 10

// redactURL keeps credentials that were put into a URL out of the answer.
func redactURL(s string) string {
	if strings.Contains(s, "@") {
		return "(not shown: it holds credentials)"
	}
	return s
}

func apply(reg *record.Cluster, spec Spec) {
	reg.Endpoint, reg.SSLVerify, reg.Labels, reg.AllowedGroups = strings.TrimRight(spec.Endpoint, "/"), spec.SSLVerify, spec.Labels, spec.AllowedGroups
	if reg.Labels == nil {
		reg.Labels = map[string]string{}
	}
	if reg.AllowedGroups == nil {
		reg.AllowedGroups = []string{}
	}
}

// Await waits until a registered cluster can be placed on: its syncer is
// connected and has said to which key its secrets are to be sealed.
func (c *Controller) Await(ctx context.Context, id string) error {
	for {
		changed := c.state.Watch()
		usable := false
		c.state.Read(func(v *view.View) {
			n := v.Nodes.Get(id)
			usable = n.Session.Rec != nil && n.Self.Rec != nil && n.Self.Rec.Recipient != "" && v.Clusters.Get(id).Rec != nil
		})
		if usable {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}
