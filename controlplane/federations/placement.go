package federations

import (
	"fmt"
	"strings"

	"github.com/oscarfed/oscarfed/api/oscar"
	"github.com/oscarfed/oscarfed/controlplane/fault"
	"github.com/oscarfed/oscarfed/controlplane/identity"
	"github.com/oscarfed/oscarfed/controlplane/tokens"
	"github.com/oscarfed/oscarfed/controlplane/topology"
	"github.com/oscarfed/oscarfed/controlplane/view"
	"github.com/oscarfed/oscarfed/store/record"
)

// checked is what check says of a service on these clusters, with the revision of the fence at which
// they were read. What it refuses is checked again on all clusters: messages say which could be named.
func (c *Controller) checked(
	caller identity.Caller, clusters []string, check func(topology.Env) (*topology.Graph, []oscar.Violation),
) (*topology.Graph, int64, error) {
	env, fence := c.registered(caller, clusters)
	g, violations := check(env)
	if len(violations) > 0 {
		env, fence = c.registered(caller, nil)
		g, violations = check(env)
	}
	if len(violations) > 0 {
		return nil, 0, fault.Invalid(violations...)
	}
	return g, fence, nil
}

// registered says which of these clusters are registered, or nil for which of all, and whether the
// caller may place on them, with the revision of the fence at which they were read.
func (c *Controller) registered(caller identity.Caller, clusters []string) (topology.Env, int64) {
	env := topology.Env{DefaultCluster: c.cfg.DefaultCluster, Clusters: map[string]record.ClusterState{}, Barred: map[string]string{}}
	var fence int64
	c.state.Read(func(v *view.View) {
		fence = v.Fence
		add := func(id string, reg view.Versioned[record.Cluster]) {
			env.Clusters[id] = reg.Rec.State
			if groups := reg.Rec.AllowedGroups; len(groups) > 0 && !caller.InGroup(groups...) {
				env.Barred[id] = forGroups(groups)
			}
			if first := v.SameOscarAs(id); first != "" {
				env.Barred[id] = fmt.Sprintf("has the same OSCAR as cluster %q, which was registered before it", first)
			}
		}
		for _, id := range clusters {
			if reg, ok := v.Clusters.Lookup(id); ok {
				add(id, reg)
			}
		}
		if clusters == nil {
			for id, reg := range v.Clusters.All() {
				add(id, reg)
			}
		}
	})
	return env, fence
}

// clustersOf are the clusters that a service names, and the default one.
func (c *Controller) clustersOf(s *oscar.Service) []string {
	out := []string{s.ClusterID, c.cfg.DefaultCluster}
	if s.Federation != nil {
		for _, m := range s.Federation.Members {
			out = append(out, m.ClusterID)
		}
	}
	return out
}

// Administrator is the caller in whose name decisions of the administrator are carried out.
func Administrator() identity.Caller {
	return identity.Caller{Subject: identity.Admin, Administrator: true}
}

// forGroups says which users' replicas a cluster accepts.
func forGroups(groups []string) string {
	named := make([]string, len(groups))
	for i, g := range groups {
		named[i] = fmt.Sprintf("%q", g)
	}
	return fmt.Sprintf("takes replicas of users in the groups %s alone, and you are in none of them", strings.Join(named, ", "))
}

// closed has the clusters that accept no new replica of an existing federation, with the
// violation for each. The federation's own clusters keep accepting its present replicas, so its
// definition is validated as if they were open.
func closed(env topology.Env, f *record.Federation) map[string]oscar.Violation {
	out := map[string]oscar.Violation{}
	for _, m := range f.Members {
		state, ok := env.Clusters[m.ClusterID]
		if !ok {
			continue
		}
		v := oscar.Violation{Path: "federation.members", Rule: oscar.RuleKnownCluster, Value: m.ClusterID}
		switch why, barred := env.Barred[m.ClusterID]; {
		case barred:
			v.Rule, v.Message = oscar.RuleAllowedCluster, fmt.Sprintf("cluster %q %s; choose another one", m.ClusterID, why)
		case state.Closed():
			v.Message = fmt.Sprintf("cluster %q is %s and takes no new replicas; choose another one", m.ClusterID, state)
		}
		if v.Message != "" {
			out[m.ClusterID] = v
		}
		open(env, m.ClusterID)
	}
	return out
}

// open has a registered cluster accept what stands there.
func open(env topology.Env, id string) {
	if _, ok := env.Clusters[id]; ok {
		delete(env.Barred, id)
		env.Clusters[id] = record.ClusterActive
	}
}

// delegates says whether jobs of a service may move to other members, which needs its owner's
// refresh token: it has members, and lists them.
func delegates(s *oscar.Service) bool {
	return s.Federation != nil && len(s.Federation.Members) > 0 && s.Federation.Topology != oscar.TopologyNone
}

func refreshTokenRequired() oscar.Violation {
	return oscar.Violation{Path: tokens.RefreshTokenPath, Rule: oscar.RuleRequired, Message: oscar.RefreshTokenRequired}
}

// Taken says what has the name or a location of a federation that is to be created, as far as this instance knows. The
// transaction that creates it checks again. By then its definition is written, and stays until it is swept.
func (c *Controller) Taken(owner string, g *topology.Graph) error {
	var named string
	c.state.Read(func(v *view.View) { named = v.Names.Get(record.NameKey(owner, g.GroupID)) })
	if named != "" {
		return c.nameHeld(named, g.GroupID)
	}
	for _, n := range g.Replicas() {
		if err := c.locationTaken(n.Member.ClusterID, n.Member.ServiceName); err != nil {
			return err
		}
	}
	return nil
}

// locationTaken is Taken of one location.
func (c *Controller) locationTaken(cluster, service string) error {
	var held *record.Desired
	c.state.Read(func(v *view.View) { held = v.Desired(cluster, service).Rec })
	if held == nil {
		return nil
	}
	return c.locationHeld(held, cluster, service)
}

// locationHeld is the error that says that a desired record, of any owner, is at a location,
// and names the ways out.
func (c *Controller) locationHeld(d *record.Desired, cluster, service string) error {
	at := cluster + "/" + service
	e := &fault.Error{Code: fault.CodeAlreadyExists, Message: at + ": a federated service of this name exists already; choose another name. Only a service of yours that is alone in its federation can become a member"}
	if !d.Tombstone() {
		return e
	}
	e.Message = at + ": a deletion of a service of this name waits for the cluster; try again when it is done, or choose another name"
	var why, waits string
	c.state.Read(func(v *view.View) {
		r := v.Replica(record.Member{ClusterID: cluster, ServiceName: service, UID: d.UID}, -1)
		why, waits = r.WhyAway(), r.Waits()
	})
	if waits != "" {
		e.Message += "; " + waits
	}
	if why != "" {
		e.Message = fmt.Sprintf("%s: a deletion of a service of this name waits for cluster %q (%s), and holds the name there until it is done: "+
			"leave the cluster out, choose another service name, or, if the cluster is gone for good, have it removed (oscarfed cluster remove %s)",
			at, cluster, why, cluster)
	}
	return e
}
