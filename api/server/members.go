package server

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/oscarfed/oscarfed/api/oscar"
	"github.com/oscarfed/oscarfed/api/server/respond"
	"github.com/oscarfed/oscarfed/controlplane/clusters"
	"github.com/oscarfed/oscarfed/controlplane/fault"
	"github.com/oscarfed/oscarfed/controlplane/federations"
	"github.com/oscarfed/oscarfed/controlplane/identity"
	"github.com/oscarfed/oscarfed/controlplane/listing"
)

// addReplicas answers POST /system/replicas/{service}: members that are there
// already, and equal, are left as they are.
func (s *Server) addReplicas(w http.ResponseWriter, r *http.Request) error {
	return s.changeReplicas(w, r, func(_ *params, body []byte, req *federations.ReplicasRequest) error {
		in := readMemberLists(body, "replicas", false)
		in.validate()
		if len(in.violations) == 0 && len(in.first) == 0 {
			in.violations = append(in.violations, missingReplicas("name the members to add"))
		}
		req.Add, req.List = in.first, in.name
		return s.checkClusters(r.Context(), respond.StateOf(r).Caller, in, namedList{"replicas", in.first})
	})
}

// replaceReplicas answers PUT /system/replicas/{service}: each member of replicas
// becomes the one of update at its place; one list alone is by identity.
func (s *Server) replaceReplicas(w http.ResponseWriter, r *http.Request) error {
	return s.changeReplicas(w, r, func(_ *params, body []byte, req *federations.ReplicasRequest) error {
		in := readMemberLists(body, "replicas", false)
		in.validate()
		req.Replace, req.List = in.replacements(), in.toList()
		if len(in.violations) == 0 && len(req.Replace) == 0 {
			in.violations = append(in.violations, missingReplicas("name the members to change"))
		}
		return s.checkClusters(r.Context(), respond.StateOf(r).Caller, in, in.wanted()...)
	})
}

// removeReplicas answers DELETE /system/replicas/{service}. What goes is named in
// one way: by the body, by cluster_id and service_name, or all by all=true. No
// name is no order.
func (s *Server) removeReplicas(w http.ResponseWriter, r *http.Request) error {
	return s.changeReplicas(w, r, func(p *params, body []byte, req *federations.ReplicasRequest) error {
		all, name := p.oneOf("all", "true", "false") == "true", p.query.Get("service_name")
		req.Data, req.Jobs = p.oneOf("data", "delete"), p.oneOf("jobs", "cancel")
		in := &memberLists{name: "replicas"}
		if len(body) > 0 {
			in = readMemberLists(body, "replicas", false)
		}
		ways := 0
		for _, given := range []bool{all, name != "", len(body) > 0} {
			if given {
				ways++
			}
		}
		switch {
		case len(in.violations) > 0:
		case ways > 1:
			p.violate("replicas", oscar.RuleUnique, nil, "what goes is named in several ways; use the body, ?cluster_id= with ?service_name=, or ?all=true")
		case all:
			req.RemoveAll = true
		case name != "":
			// cluster_id is the member's here, and not that of the service in the path.
			in.first = []oscar.Member{{Type: oscar.MemberOSCAR, ClusterID: req.ClusterID, ServiceName: name}}
			if req.ClusterID == "" {
				p.violate("?cluster_id", oscar.RuleRequired, nil, "cluster_id is missing; it says which replica named "+strconv.Quote(respond.Cut(name, oscar.MaxNameLength))+" goes")
			}
			req.ClusterID = ""
		case len(in.first) == 0:
			in.violations = append(in.violations, missingReplicas("name the members to remove, or say ?all=true"))
		}
		if name == "" {
			in.validateRemoval()
		}
		in.violations = append(in.violations, p.violations...)
		req.Remove = in.first
		return s.checkClusters(r.Context(), respond.StateOf(r).Caller, in)
	})
}

func missingReplicas(hint string) oscar.Violation {
	return oscar.Violation{Path: "replicas", Rule: oscar.RuleRequired, Message: "replicas is missing or empty; " + hint}
}

// wanted are the members that shall be there after a replacement.
func (in *memberLists) wanted() []namedList {
	if len(in.update) == 0 {
		return []namedList{{in.name, in.first}}
	}
	return []namedList{{"update", in.update}}
}

// toList is the path of the list that wanted stand in.
func (in *memberLists) toList() string { return in.wanted()[0].name }

// changeReplicas reads what all changes of members have in common, lets fill add
// what is changed, and answers with the federation as the service sees it then.
func (s *Server) changeReplicas(w http.ResponseWriter, r *http.Request, fill func(*params, []byte, *federations.ReplicasRequest) error) error {
	result, err := s.changeMembers(r, fill)
	if err != nil {
		return err
	}
	w.Header().Set("ETag", etag(result.Replicas.Revision))
	replayed(w.Header(), result.Replayed)
	view := result.Replicas.Wire(s.cfg.Now())
	view.Removed = result.Removed
	return respond.JSON(w, http.StatusOK, view)
}

// changeMembers carries out a change of members. A request that names none
// changes nothing and is not committed: its answer is what there is.
func (s *Server) changeMembers(r *http.Request, fill func(*params, []byte, *federations.ReplicasRequest) error) (*federations.ChangeResult, error) {
	st, p, service := respond.StateOf(r), paramsOf(r), pathParam(r, "service")
	st.Change, st.Location = true, respond.ReplicasPath(service)
	req := federations.ReplicasRequest{ClusterID: p.query.Get("cluster_id"), RequestID: st.WriteID, Wait: p.wait(0)}
	if preferencesOf(r).async {
		req.Wait = 0
	}
	var err error
	if req.IfMatch, err = p.ifMatch(); err != nil {
		return nil, err
	}
	body, err := readBody(r)
	if err != nil {
		return nil, err
	}
	req.Repeat = p.repeat(body)
	if err := p.err(); err != nil {
		return nil, err
	}
	if err := fill(p, body, &req); err != nil {
		return nil, err
	}
	if len(req.Add) == 0 && len(req.Remove) == 0 && len(req.Replace) == 0 && !req.RemoveAll {
		return s.unchanged(r, req)
	}
	return s.cp.Federations.ChangeReplicas(r.Context(), st.Caller, service, req)
}

// unchanged answers a change of nothing.
func (s *Server) unchanged(r *http.Request, req federations.ReplicasRequest) (*federations.ChangeResult, error) {
	view, err := s.cp.Federations.Replicas(r.Context(), respond.StateOf(r).Caller, pathParam(r, "service"), req.ClusterID)
	if err != nil {
		return nil, err
	}
	if req.IfMatch != 0 && req.IfMatch != view.Revision {
		return nil, respond.Errorf(fault.CodeConflict, "federation %q has been changed since; GET it again and decide anew", view.GroupID)
	}
	return &federations.ChangeResult{Replicas: *view}, nil
}

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
	return fault.Invalid(oscar.LimitViolations(in.violations)...)
}

// checkClusters reports clusters that are not registered, where they stand in the request: those
// of the members that shall be there, and those that upstream's form describes.
func (s *Server) checkClusters(ctx context.Context, caller identity.Caller, in *memberLists, lists ...namedList) error {
	if len(in.violations) > 0 || len(in.clusters) == 0 && !slices.ContainsFunc(lists, func(l namedList) bool { return len(l.members) > 0 }) {
		return in.err()
	}
	page, err := s.cp.Clusters.List(ctx, caller, listing.Query{})
	if err != nil {
		return err
	}
	var known []string
	if err := page.Each(func(c *clusters.Cluster) error {
		known = append(known, c.ClusterID)
		return nil
	}); err != nil {
		return err
	}
	unknown := func(path, id string) {
		in.violations = append(in.violations, oscar.Violation{
			Path: path, Rule: oscar.RuleKnownCluster, Value: respond.Cut(id, oscar.MaxIDLength), Message: fmt.Sprintf(
				"cluster %q is not registered; known: %s", respond.Cut(id, oscar.MaxIDLength), strings.Join(known, ", ")),
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
				path = fmt.Sprintf("clusters[%q]", respond.Cut(id, oscar.MaxIDLength))
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
