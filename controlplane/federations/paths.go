package federations

import (
	"errors"
	"fmt"
	"strings"

	"github.com/oscarfed/oscarfed/api/oscar"
	"github.com/oscarfed/oscarfed/controlplane/fault"
)

// requestPaths maps the members that a request named to their index in it, so that violations
// of the edited definition name the path in the request. The zero value is for a request that
// contains the whole definition.
type requestPaths struct {
	// list is the path of the list, and indexes has each member's index in it.
	list    string
	indexes map[oscar.MemberKey]int
}

func (r ReplicasRequest) requestPaths() requestPaths {
	out := requestPaths{list: r.List, indexes: map[oscar.MemberKey]int{}}
	for i, m := range r.Add {
		out.indexes[m.Key()] = i
	}
	for i, p := range r.Replace {
		out.indexes[p.To.Key()] = i
	}
	return out
}

// membersPath is where a definition has its members.
const membersPath = "federation.members"

// rewrite replaces the paths in the violations of an edited definition. A member that the
// request did not name keeps its path in the definition: it was invalid before.
func (p requestPaths) rewrite(err error, s *oscar.Service) error {
	e, ok := errors.AsType[*fault.Error](err)
	if !ok || len(e.Violations) == 0 || p.indexes == nil || s.Federation == nil {
		return err
	}
	renamed := strings.NewReplacer(p.pairs(s.Federation.Members)...)
	out := *e
	out.Violations = nil
	for _, v := range e.Violations {
		if v.Rule == oscar.RuleUnique && strings.HasPrefix(v.Path, membersPath) {
			v.Message = fmt.Sprintf("%v is a member already; name it once", v.Value)
		}
		if v.Path == membersPath {
			v.Path = p.list
		}
		v.Path, v.Message = renamed.Replace(v.Path), renamed.Replace(v.Message)
		out.Violations = append(out.Violations, v)
	}
	return &out
}

// pairs are the old and new paths of the members that the request named.
func (p requestPaths) pairs(members []oscar.Member) []string {
	var out []string
	for i, m := range members {
		if at, ok := p.indexes[m.Key()]; ok {
			out = append(out, fmt.Sprintf("%s[%d]", membersPath, i), fmt.Sprintf("%s[%d]", p.list, at))
		}
	}
	return out
}
