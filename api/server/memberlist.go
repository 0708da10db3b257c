package server

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/oscarfed/oscarfed/api/oscar"
	"github.com/oscarfed/oscarfed/controlplane/federations"
	"github.com/oscarfed/oscarfed/controlplane/identity"
)

// memberLists is a request that changes the members, in our form or in OSCAR's: the same but for
// the name of the first list.
type memberLists struct {
	// name of the first list in the request: replicas or members; empty when the
	// body is that list itself.
	name          string
	first, update []oscar.Member
	// clusters are the ids of the clusters that upstream's form describes. What it
	// says of them, passwords too, is not read: they are registered here.
	clusters   []string
	violations []oscar.Violation
}

// readMemberLists reads a body that is an object with the lists or, where bare
// says so, the first list itself. What is absent, null or empty is an empty list.
func readMemberLists(data []byte, name string, bare bool) *memberLists {
	in := &memberLists{name: name}
	if bare && bytes.HasPrefix(bytes.TrimLeft(data, " \t\r\n"), []byte("[")) {
		in.name = ""
		in.first = in.parse("", data)
		return in
	}
	var body struct {
		Replicas json.RawMessage `json:"replicas"` // keys in any case
		Members  json.RawMessage `json:"members"`
		Update   json.RawMessage `json:"update"`
		Clusters json.RawMessage `json:"clusters"`
	}
	if err := json.Unmarshal(data, &body); err != nil {
		in.violations = append(in.violations, jsonViolation(err))
		return in
	}
	first := body.Replicas
	if name == "members" {
		first = body.Members
	}
	in.first = in.parse(name, first)
	in.update = in.parse("update", body.Update)
	if raw := body.Clusters; raw != nil {
		var clusters map[string]json.RawMessage
		if err := json.Unmarshal(raw, &clusters); err != nil {
			in.violations = append(in.violations, oscar.Violation{
				Path: "clusters", Rule: oscar.RuleType, Message: "clusters is no object; its keys are the ids of clusters",
			})
		}
		for id := range clusters {
			in.clusters = append(in.clusters, id)
		}
		slices.Sort(in.clusters)
	}
	return in
}

func (in *memberLists) parse(path string, raw json.RawMessage) []oscar.Member {
	if raw == nil {
		return nil
	}
	members, violations := oscar.ParseMembers(path, raw)
	for _, v := range violations {
		if path == "" && v.Path == "" {
			v.Message = "the list" + v.Message // which begins with its path
		}
		in.violations = append(in.violations, v)
	}
	if len(violations) > 0 || len(members) == 0 {
		return nil // what could not be read would be reported as missing, too
	}
	return members
}

// validate checks what can be checked without the federation. The coordinator is
// the control plane's to compare with.
func (in *memberLists) validate() {
	in.violations = append(in.violations, oscar.ValidateMembers(in.name, oscar.Member{}, in.first)...)
	in.violations = append(in.violations, oscar.ValidateMembers("update", oscar.Member{}, in.update)...)
}

// validateRemoval is validate for members that go: naming one twice asks for
// nothing else.
func (in *memberLists) validateRemoval() {
	in.validate()
	in.violations = slices.DeleteFunc(in.violations, func(v oscar.Violation) bool { return v.Rule == oscar.RuleUnique })
}

// replacements pairs the two lists; one list alone is by identity.
func (in *memberLists) replacements() []federations.Replacement {
	from, to := in.first, in.update
	switch {
	case len(from) == 0:
		from = to
	case len(to) == 0:
		to = from
	case len(from) != len(to):
		in.violations = append(in.violations, oscar.Violation{
			Path: "update", Rule: oscar.RuleMaxMembers, Value: len(to), Message: fmt.Sprintf(
				"update has %d members and %s has %d; give as many, since each one becomes the one at its place, or one list alone", len(to), in.name, len(from)),
		})
		return nil
	}
	out := make([]federations.Replacement, len(from))
	for i := range from {
		out[i] = federations.Replacement{From: from[i], To: to[i]}
	}
	return out
}

// err is nil when the lists broke no rule.
func (in *memberLists) err() error {
	if len(in.violations) == 0 {
		return nil
	}
	return invalid(oscar.LimitViolations(in.violations)...)
}

// checkClusters reports clusters that are not registered, where they stand in the request: those
// of the members that shall be there, and those that upstream's form describes.
func (s *Server) checkClusters(ctx context.Context, caller identity.Caller, in *memberLists, lists ...namedList) error {
	if len(in.violations) > 0 || len(in.clusters) == 0 && !slices.ContainsFunc(lists, func(l namedList) bool { return len(l.members) > 0 }) {
		return in.err()
	}
	registered, err := s.cp.Clusters.Clusters(ctx, caller)
	if err != nil {
		return err
	}
	known := make([]string, len(registered))
	for i := range registered {
		known[i] = registered[i].ClusterID
	}
	unknown := func(path, id string) {
		in.violations = append(in.violations, oscar.Violation{
			Path: path, Rule: oscar.RuleKnownCluster, Value: cut(id, oscar.MaxIDLength), Message: fmt.Sprintf(
				"cluster %q is not registered; known: %s", cut(id, oscar.MaxIDLength), strings.Join(known, ", ")),
		})
	}
	for _, l := range lists {
		for i, m := range l.members {
			if m.Replica() && !slices.Contains(known, m.ClusterID) {
				unknown(fmt.Sprintf("%s[%d].cluster_id", l.name, i), m.ClusterID)
			}
		}
	}
	for _, id := range in.clusters {
		if !slices.Contains(known, id) {
			path := "clusters." + id
			if !oscar.ValidClusterID(id) {
				path = fmt.Sprintf("clusters[%q]", cut(id, oscar.MaxIDLength))
			}
			unknown(path, id)
		}
	}
	return in.err()
}

// namedList is a list of members with its path in the request.
type namedList struct {
	name    string
	members []oscar.Member
}
