package oscar

import (
	"fmt"
	"slices"
	"strings"

	"golang.org/x/net/http/httpguts"
)

func checkFederation(s *Service) []Violation {
	f := s.Federation
	if f == nil {
		return nil
	}
	delegation, threshold := "federation.delegation", "federation.rescheduler_threshold"
	if s.from.delegation {
		delegation = "delegation"
	}
	if s.from.threshold {
		threshold = "rescheduler_threshold"
	}
	var vs []Violation
	vs = append(vs, checkGroupID("federation.group_id", f.GroupID)...)
	vs = append(vs, oneOf("federation.topology", f.Topology, TopologyNone, TopologyStar, TopologyTree, TopologyMesh)...)
	vs = append(vs, oneOf(delegation, f.Delegation, DelegationStatic, DelegationRandom, DelegationLoadBased, DelegationTopsis)...)
	vs = append(vs, oneOf("federation.deployment", f.Deployment, DeploymentTransactional, DeploymentBestEffort)...)
	vs = append(vs, oneOf("federation.drift", f.Drift, DriftEnforce, DriftReport)...)
	if f.ReschedulerThreshold < 0 {
		vs = append(vs, negative(threshold, f.ReschedulerThreshold))
	}
	vs = append(vs, checkWeights(f)...)
	return append(vs, ValidateMembers(s.membersPath(), Member{Type: MemberOSCAR, ClusterID: s.ClusterID, ServiceName: s.Name}, f.Members)...)
}

// MaxWeight is the largest weight; with it sums and squares stay exact enough.
const MaxWeight = 1_000_000_000

// maxWeights is how many places weights may name.
const maxWeights = 2 * MaxReplicas

// TopsisCriteria are what topsis weighs.
func TopsisCriteria() []string {
	return []string{"latency", "nodes", "memory", "cpu", "duration", "pending"}
}

// checkWeights: random weighs places, which need not be members yet or any more; topsis
// its criteria. The other policies weigh nothing.
func checkWeights(f *Federation) []Violation {
	const path = "federation.weights"
	var vs []Violation
	if len(f.Weights) > maxWeights {
		return []Violation{{Path: path, Rule: RuleMaxMembers, Value: len(f.Weights), Message: fmt.Sprintf(
			"there are %d weights; the limit is %d", len(f.Weights), maxWeights)}}
	}
	for _, key := range sortedKeys(f.Weights) {
		at, weight := joinPath(path, key), f.Weights[key]
		if weight < 0 {
			vs = append(vs, negative(at, weight))
		} else if weight > MaxWeight {
			vs = append(vs, tooHeavy(at, weight))
		}
		switch f.Delegation {
		case DelegationRandom:
			cluster, service, named := strings.Cut(key, "/")
			if !ValidClusterID(cluster) || named && len(checkServiceName(at, service)) > 0 {
				vs = append(vs, Violation{Path: at, Rule: RuleName, Value: shorten(key), Message: fmt.Sprintf(
					"%s names no place; use a cluster_id, or cluster_id/service_name", quote(key))})
			}
		case DelegationTopsis:
			if !slices.Contains(TopsisCriteria(), key) {
				vs = append(vs, Violation{Path: at, Rule: RuleOneOf, Value: shorten(key), Message: fmt.Sprintf(
					"criterion %s is unknown; use %s", quote(key), wordList(TopsisCriteria()...))})
			}
		}
	}
	return vs
}

func tooHeavy(path string, value any) Violation {
	return Violation{Path: path, Rule: RuleType, Value: value, Message: fmt.Sprintf("the weight %v is too large; the limit is %d", value, MaxWeight)}
}

// ValidateMembers checks a list of members that stands at path: each one, that they differ, that
// none is the coordinator itself, and how many they are. A coordinator without cluster_id is
// compared with no member.
func ValidateMembers(path string, coordinator Member, members []Member) []Violation {
	var vs []Violation
	seen := map[MemberKey]int{}
	replicas, endpoints := 1, 0
	for i, m := range members {
		at := indexPath(path, i)
		vs = append(vs, validateMember(at, m)...)
		if m.Replica() {
			replicas++
		} else {
			endpoints++
		}
		key := m.Key()
		if key.ServiceName == "" && key.URL == "" {
			continue
		}
		if coordinator.ClusterID != "" && key == coordinator.Key() {
			vs = append(vs, Violation{Path: at, Rule: RuleNoSelf, Value: key.String(), Message: fmt.Sprintf(
				"%s is the coordinator itself; a service is not a member of its own federation's list; remove the entry", quote(key.String()))})
		}
		if first, ok := seen[key]; ok {
			vs = append(vs, Violation{Path: at, Rule: RuleUnique, Value: key.String(), Message: fmt.Sprintf(
				"%s is listed twice, first at %s; remove one of the two", quote(key.String()), indexPath(path, first))})
			continue
		}
		seen[key] = i
	}
	if replicas > MaxReplicas {
		vs = append(vs, Violation{Path: path, Rule: RuleMaxMembers, Value: replicas, Message: fmt.Sprintf(
			"the federation has %d replicas, the coordinator included; the limit is %d; make two federations of it", replicas, MaxReplicas)})
	}
	if endpoints > MaxEndpoints {
		vs = append(vs, Violation{Path: path, Rule: RuleMaxMembers, Value: endpoints, Message: fmt.Sprintf(
			"the federation has %d members of type endpoint; the limit is %d", endpoints, MaxEndpoints)})
	}
	return vs
}

func validateMember(at string, m Member) []Violation {
	vs := oneOf(at+".type", m.Kind(), MemberOSCAR, MemberEndpoint)
	if len(vs) > 0 {
		vs[0].Value = shorten(m.Type)
		return vs
	}
	if m.Replica() {
		if m.ClusterID == "" {
			vs = append(vs, Violation{Path: at + ".cluster_id", Rule: RuleRequired, Message: at + ".cluster_id is missing; name the cluster that the replica is for"})
		}
		vs = append(vs, checkClusterID(at+".cluster_id", m.ClusterID)...)
		vs = append(vs, checkServiceName(at+".service_name", m.ServiceName)...)
	} else {
		if m.URL == "" {
			vs = append(vs, Violation{Path: at + ".url", Rule: RuleRequired, Message: at + ".url is missing; a member of type endpoint takes jobs at a url"})
		} else {
			vs = append(vs, checkURL(at+".url", m.URL)...)
		}
		vs = append(vs, checkClusterID(at+".cluster_id", m.ClusterID)...)
		if len(m.ServiceName) > MaxIDLength {
			vs = append(vs, Violation{Path: at + ".service_name", Rule: RuleMaxLength, Value: shorten(m.ServiceName), Message: fmt.Sprintf(
				"service_name has %d characters; the limit is %d", len(m.ServiceName), MaxIDLength)})
		}
	}
	if m.Priority < 0 {
		vs = append(vs, negative(at+".priority", m.Priority))
	}
	if m.Weight != nil && *m.Weight < 0 {
		vs = append(vs, negative(at+".weight", *m.Weight))
	} else if m.Weight != nil && *m.Weight > MaxWeight {
		vs = append(vs, tooHeavy(at+".weight", *m.Weight))
	}
	for _, key := range sortedKeys(m.Headers) {
		if !httpguts.ValidHeaderFieldName(key) {
			vs = append(vs, Violation{Path: joinPath(at+".headers", key), Rule: RuleName, Value: shorten(key), Message: fmt.Sprintf(
				"%s is not the name of an HTTP header", quote(key))})
		} else if !httpguts.ValidHeaderFieldValue(m.Headers[key]) {
			vs = append(vs, Violation{Path: joinPath(at+".headers", key), Rule: RuleType, Message: fmt.Sprintf(
				"the value of header %s holds a character that HTTP forbids, as a line break", quote(key))})
		}
	}
	return vs
}

func negative(path string, value any) Violation {
	return Violation{Path: path, Rule: RuleType, Value: value, Message: fmt.Sprintf(
		"%s %v is negative; use 0 or more", path[strings.LastIndexByte(path, '.')+1:], value)}
}

func sortedKeys[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for key := range m {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	return keys
}
