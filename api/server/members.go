package server

import (
	"net/http"
	"strconv"

	"github.com/oscarfed/oscarfed/api/oscar"
	"github.com/oscarfed/oscarfed/controlplane/fault"
	"github.com/oscarfed/oscarfed/controlplane/federations"
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
		return s.checkClusters(r.Context(), stateOf(r).caller, in, namedList{"replicas", in.first})
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
		return s.checkClusters(r.Context(), stateOf(r).caller, in, in.wanted()...)
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
				p.violate("?cluster_id", oscar.RuleRequired, nil, "cluster_id is missing; it says which replica named "+strconv.Quote(cut(name, oscar.MaxNameLength))+" goes")
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
		return s.checkClusters(r.Context(), stateOf(r).caller, in)
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
	view := replicasOf(&result.Replicas)
	view.Removed = result.Removed
	return writeJSON(w, http.StatusOK, view)
}

// changeMembers carries out a change of members. A request that names none
// changes nothing and is not committed: its answer is what there is.
func (s *Server) changeMembers(r *http.Request, fill func(*params, []byte, *federations.ReplicasRequest) error) (*federations.ChangeResult, error) {
	st, p, service := stateOf(r), paramsOf(r), pathParam(r, "service")
	st.change, st.location = true, replicasPath(service)
	req := federations.ReplicasRequest{ClusterID: p.query.Get("cluster_id"), RequestID: st.writeID, Wait: p.wait(0)}
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
	return s.cp.Federations.ChangeReplicas(r.Context(), st.caller, service, req)
}

// unchanged answers a change of nothing.
func (s *Server) unchanged(r *http.Request, req federations.ReplicasRequest) (*federations.ChangeResult, error) {
	view, err := s.cp.Federations.Replicas(r.Context(), stateOf(r).caller, pathParam(r, "service"), req.ClusterID)
	if err != nil {
		return nil, err
	}
	if req.IfMatch != 0 && req.IfMatch != view.Revision {
		return nil, errorf(fault.CodeConflict, "federation %q has been changed since; GET it again and decide anew", view.GroupID)
	}
	return &federations.ChangeResult{Replicas: *view}, nil
}
