package topology

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/oscarfed/oscarfed/api/oscar"
	"github.com/oscarfed/oscarfed/store/record"
)

// Env is what the graph rules must know of the world.
type Env struct {
	// DefaultCluster is the coordinator's cluster when the service names none.
	DefaultCluster string
	// Clusters are the registered ids with their state; nil checks nothing. A change
	// passes the clusters that the federation is already on as active: a closed one
	// refuses what is new.
	Clusters map[string]record.ClusterState
	// Barred are the ids that take nothing of the caller's, with why, such as: takes
	// replicas of users in the group "physics" alone.
	Barred map[string]string
	// Stands is the definition that a change only takes something away from, or decides about, or that a
	// cluster has; nil for another one. What is wrong in it, by a rule that is newer than it, refuses none of these.
	Stands *oscar.Service
}

// FromService makes the graph of a service: the coordinator, on the service's
// cluster_id or the default cluster, and its members. What is not given gets its
// default: group_id the service's name, topology star (none without members, as
// OSCAR calls a service on its own), delegation static, deployment transactional,
// drift enforce. Types are written in lower case.
//
// All violations are reported at once, oscar.Validate's included; with one, the
// graph is nil. s is not changed.
func FromService(s *oscar.Service, env Env) (*Graph, []oscar.Violation) {
	if s == nil {
		return nil, oscar.Validate(nil)
	}
	placed := s.Clone()
	if placed.ClusterID == "" {
		placed.ClusterID = env.DefaultCluster
	}
	violations := oscar.Violations(placed)
	if len(violations) > 0 && env.Stands != nil {
		violations = newViolations(violations, oscar.Violations(env.Stands))
	}
	violations = append(violations, checkClusters(s, placed, env)...)
	if len(violations) > 0 {
		return nil, oscar.LimitViolations(violations)
	}
	return build(placed), nil
}

// newViolations are those of a definition that another one does not have.
func newViolations(all, before []oscar.Violation) []oscar.Violation {
	type what struct{ path, rule, value string }
	of := func(v oscar.Violation) what {
		return what{indices.ReplaceAllString(v.Path, "[]"), v.Rule, fmt.Sprint(v.Value)} // members move up
	}
	had := map[what]bool{}
	for _, v := range before {
		had[of(v)] = true
	}
	return slices.DeleteFunc(all, func(v oscar.Violation) bool { return had[of(v)] })
}

var indices = regexp.MustCompile(`\[[0-9]+\]`)

// Complete fills in the defaults of a service's federation, as FromService does;
// groupID and clusterID are those that it has already, when it says none. With
// oscar.Service.WithDefaults, two definitions that ask for the same become equal.
func Complete(s *oscar.Service, clusterID, groupID string) *oscar.Service {
	out := s.Clone()
	out.ClusterID = cmp.Or(out.ClusterID, clusterID)
	g := build(out)
	if out.Federation == nil {
		out.Federation = &oscar.Federation{}
	}
	f := out.Federation
	f.GroupID = cmp.Or(f.GroupID, groupID, g.GroupID)
	f.Topology, f.Delegation, f.Deployment, f.Drift = g.Topology, g.Delegation, g.Deployment, g.Drift
	for i := range f.Members {
		f.Members[i].Type = f.Members[i].Kind()
	}
	return out.WithDefaults()
}

func build(s *oscar.Service) *Graph {
	f := oscar.Federation{}
	if s.Federation != nil {
		f = *s.Federation
	}
	topology := oscar.TopologyStar
	if len(f.Members) == 0 {
		topology = oscar.TopologyNone
	}
	g := &Graph{
		GroupID:              cmp.Or(f.GroupID, s.Name),
		Topology:             cmp.Or(f.Topology, topology),
		Delegation:           cmp.Or(f.Delegation, oscar.DelegationStatic),
		Deployment:           cmp.Or(f.Deployment, oscar.DeploymentTransactional),
		Drift:                cmp.Or(f.Drift, oscar.DriftEnforce),
		ReschedulerThreshold: f.ReschedulerThreshold,
	}
	g.Nodes = append(g.Nodes, Node{Coordinator: true, Member: oscar.Member{
		Type: oscar.MemberOSCAR, ClusterID: s.ClusterID, ServiceName: s.Name}})
	for _, m := range f.Members {
		m.Type = m.Kind()
		g.Nodes = append(g.Nodes, Node{Member: m})
	}
	return g
}

// checkClusters reports clusters that are missing, unknown or take nothing new.
func checkClusters(submitted, placed *oscar.Service, env Env) []oscar.Violation {
	var vs []oscar.Violation
	if placed.ClusterID == "" {
		message := "cluster_id is missing and there is no default cluster; name the coordinator's cluster"
		vs = append(vs, oscar.Violation{Path: "cluster_id", Rule: oscar.RuleRequired, Message: message + known(env)})
	} else if rule, why := env.refuses(placed.ClusterID); why != "" {
		switch _, registered := env.Clusters[placed.ClusterID]; {
		case submitted.ClusterID == "":
			why += "; it is the default cluster: name another one in cluster_id"
		case !registered && len(env.Clusters) > 0: // as when the control plane was added to oscar-cli
			why += ". oscar-cli sends the name that it knows this endpoint by: add it there under the name of a cluster"
			if env.DefaultCluster != "" {
				why += ", or as " + oscar.DefaultClusterKey
			}
		}
		vs = append(vs, oscar.Violation{Path: "cluster_id", Rule: rule, Value: placed.ClusterID, Message: why})
	}
	if submitted.Federation == nil {
		return vs
	}
	return append(vs, checkMembers(func(i int) string { return submitted.MemberPath(i) }, submitted.Federation.Members, env)...)
}

// checkMembers reports members on clusters that are unknown or take nothing new;
// path gives the path of a member in what was submitted.
func checkMembers(path func(i int) string, members []oscar.Member, env Env) []oscar.Violation {
	var vs []oscar.Violation
	for i, m := range members {
		if !m.Replica() || m.ClusterID == "" || !oscar.ValidClusterID(m.ClusterID) {
			continue // a violation of its own, or an endpoint
		}
		if rule, why := env.refuses(m.ClusterID); why != "" {
			vs = append(vs, oscar.Violation{Path: path(i) + ".cluster_id", Rule: rule, Value: m.ClusterID, Message: why})
		}
	}
	return vs
}

// refuses says why a cluster takes no new replica, and what to name instead; or nothing.
func (env Env) refuses(id string) (rule, why string) {
	if env.Clusters == nil || !oscar.ValidClusterID(id) {
		return "", ""
	}
	rule = oscar.RuleKnownCluster
	switch state, ok := env.Clusters[id]; {
	case !ok:
		why = "is not registered"
	case env.Barred[id] != "":
		rule, why = oscar.RuleAllowedCluster, env.Barred[id]+"; choose another one"
	case state == record.ClusterCordoned:
		why = "is cordoned and takes no new replicas; uncordon it or choose another one"
	case state == record.ClusterRevoked:
		why = "has no rights any more and takes no new replicas; choose another one"
	case state == record.ClusterRemoving:
		why = "is being removed and takes no new replicas; choose another one"
	default:
		return "", ""
	}
	return rule, fmt.Sprintf("cluster %q %s%s", id, why, known(env))
}

// maxKnown is how many cluster ids a message lists.
const maxKnown = 20

// known ends a message with the clusters that could be named instead.
func known(env Env) string {
	var ids []string
	for id, state := range env.Clusters {
		if !state.Closed() && env.Barred[id] == "" {
			ids = append(ids, id)
		}
	}
	if len(ids) == 0 {
		if env.Clusters == nil {
			return ""
		}
		return "; no cluster is registered that takes replicas"
	}
	slices.Sort(ids)
	more := ""
	if len(ids) > maxKnown {
		more = fmt.Sprintf(" and %d more", len(ids)-maxKnown)
		ids = ids[:maxKnown]
	}
	return "; known: " + strings.Join(ids, ", ") + more
}
