package oscar

import (
	"fmt"
	"reflect"
	"strconv"
	"strings"
)

// v3Origin tells which parts of the federation came in the form of OSCAR v3. alone says that there is nothing else of it:
// neither the federation nor replicas.
type v3Origin struct{ members, delegation, threshold, alone bool }

// v3Federation is the federation of OSCAR v3: at the top level of the service.
type v3Federation struct {
	Replicas             []Member `json:"replicas"`
	Delegation           string   `json:"delegation"`
	ReschedulerThreshold int      `json:"rescheduler_threshold"`
}

// ParseService reads a service as OSCAR's clients send it: keys in any case,
// federation in the form of v4 or v3, ports as a number or an array. Unknown
// fields are kept.
//
// What cannot be read at all gives a nil service and one violation. Wrong types
// give one violation each and a service without these fields; Validate does not
// report them again, so that a caller may append its findings. Nothing else is
// checked here.
func ParseService(data []byte) (*Service, []Violation) {
	v, violation := parseJSON(data, "the service", MaxServiceBytes)
	if violation != nil {
		return nil, []Violation{*violation}
	}
	if v.kind != kindObject {
		return nil, []Violation{{Rule: RuleType, Message: fmt.Sprintf("the service must be an object, not %s", v.kind)}}
	}
	s, violations := serviceOf("", v, false)
	return s, LimitViolations(violations)
}

// ParseMembers reads a list of members that stands at path, as in a request that
// changes a federation. The violations are of type only; see ValidateMembers.
func ParseMembers(path string, data []byte) ([]Member, []Violation) {
	v, violation := parseJSON(data, path, MaxServiceBytes)
	if violation != nil {
		violation.Path = path
		return nil, []Violation{*violation}
	}
	var members []Member
	var d decoder
	d.into(path, v, reflect.ValueOf(&members).Elem())
	return members, LimitViolations(d.violations)
}

// serviceOf types a service that stands at path. text is for YAML.
func serviceOf(path string, v *value, text bool) (*Service, []Violation) {
	d := decoder{text: text}
	s := &Service{}
	d.into(path, v, reflect.ValueOf(s).Elem())
	s.liftV3(path, v, &d)
	for _, violation := range d.violations {
		s.faults = append(s.faults, strings.TrimPrefix(strings.TrimPrefix(violation.Path, path), "."))
	}
	return s, d.violations
}

// liftV3 moves top-level replicas, delegation and rescheduler_threshold into the
// federation. What the federation says itself wins.
func (s *Service) liftV3(path string, v *value, d *decoder) {
	var old v3Federation
	fields, _ := fieldsOf(reflect.TypeFor[v3Federation]())
	for key := range s.Extra {
		if _, ok := lookup(fields, key); ok {
			delete(s.Extra, key)
		}
	}
	if len(s.Extra) == 0 {
		s.Extra = nil
	}
	for _, info := range fields {
		if item := v.field(info.name); item != nil {
			d.into(joinPath(path, info.name), item, reflect.ValueOf(&old).Elem().Field(info.index))
		}
	}
	if old.Replicas == nil && old.Delegation == "" && old.ReschedulerThreshold == 0 {
		return
	}
	if s.Federation == nil {
		alone := old.Replicas == nil
		if alone && (old.Delegation == "" || lower(old.Delegation) == DelegationStatic) && old.ReschedulerThreshold == 0 {
			return // oscar-cli always sends these two
		}
		s.Federation, s.from.alone = &Federation{}, alone
	}
	f := s.Federation
	if f.Delegation == "" && old.Delegation != "" {
		f.Delegation, s.from.delegation = old.Delegation, true
	}
	if f.ReschedulerThreshold == 0 && old.ReschedulerThreshold != 0 {
		f.ReschedulerThreshold, s.from.threshold = old.ReschedulerThreshold, true
	}
	switch {
	case len(old.Replicas) == 0:
	case len(f.Members) > 0:
		d.violations = append(d.violations, Violation{Path: joinPath(path, "replicas"), Rule: RuleUnique, Value: len(old.Replicas),
			Message: "members are given twice: in federation.members and, in the form of OSCAR v3, in replicas; give them once, in federation.members"})
	default:
		f.Members, s.from.members = old.Replicas, true
		if f.Topology == "" {
			f.Topology = TopologyStar
		}
	}
}

// Submitted is the service as a request has it: delegation and rescheduler_threshold that stood alone, in the form of
// OSCAR v3, do so again, since a change tells them from a federation (KeepAbsent).
func (s *Service) Submitted() *Service {
	if !s.from.alone {
		return s
	}
	out := s.Clone()
	out.Federation, out.from = nil, v3Origin{}
	if out.Extra == nil {
		out.Extra = Extra{}
	}
	if s.from.delegation {
		out.Extra["delegation"] = appendString(nil, s.Federation.Delegation)
	}
	if s.from.threshold {
		out.Extra["rescheduler_threshold"] = strconv.AppendInt(nil, int64(s.Federation.ReschedulerThreshold), 10)
	}
	return out
}

// membersPath is where the members stood in what was submitted.
func (s *Service) membersPath() string {
	if s.from.members {
		return "replicas"
	}
	return "federation.members"
}

// MemberPath is the path of member i in what was submitted.
func (s *Service) MemberPath(i int) string { return indexPath(s.membersPath(), i) }

// UnmarshalJSON implements json.Unmarshaler by ParseService; the first violation is the error.
func (s *Service) UnmarshalJSON(data []byte) error {
	if string(data) == "null" {
		return nil
	}
	parsed, violations := ParseService(data)
	if len(violations) > 0 {
		return violations[0]
	}
	*s = *parsed
	return nil
}

// MarshalJSON implements json.Marshaler: compact, in a stable order, unknown fields last.
func (s Service) MarshalJSON() ([]byte, error) {
	return encoder{full: s.full}.append(nil, reflect.ValueOf(s)), nil
}

// TakeRefreshToken removes the user's refresh token from environment.secrets and
// from top-level secrets, and returns it; the first of the two wins. OSCAR would
// put it into the environment of the user's code.
func (s *Service) TakeRefreshToken() string {
	token := take(s.Environment.Secrets)
	if other := take(s.Secrets); token == "" {
		token = other
	}
	if len(s.Secrets) == 0 {
		s.Secrets = nil
	}
	return token
}

// GiveRefreshToken puts it where TakeRefreshToken finds it first, and makes no environment.secrets for
// it: an absent one has a meaning (KeepAbsent).
func (s *Service) GiveRefreshToken(token string) {
	secrets := &s.Environment.Secrets
	if *secrets == nil {
		secrets = &s.Secrets
	}
	if *secrets == nil {
		*secrets = map[string]string{}
	}
	(*secrets)[RefreshTokenKey] = token
}

func take(secrets map[string]string) string {
	token := strings.TrimSpace(secrets[RefreshTokenKey])
	delete(secrets, RefreshTokenKey)
	return token
}

// Clone is a deep copy.
func (s *Service) Clone() *Service {
	if s == nil {
		return nil
	}
	out := clone(*s)
	return &out
}

// Equal says whether two services are written as the same bytes.
func Equal(a, b *Service) bool {
	if a == nil || b == nil {
		return a == b
	}
	e := encoder{}
	return string(e.append(nil, reflect.ValueOf(*a))) == string(e.append(nil, reflect.ValueOf(*b)))
}

func clone[T any](v T) T {
	var out T
	reflect.ValueOf(&out).Elem().Set(cloneValue(reflect.ValueOf(&v).Elem()))
	return out
}

// cloneValue copies slices, maps and pointers; unexported fields are shared,
// they never change after parsing.
func cloneValue(v reflect.Value) reflect.Value {
	out := reflect.New(v.Type()).Elem()
	out.Set(v)
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			out.Set(reflect.New(v.Type().Elem()))
			out.Elem().Set(cloneValue(v.Elem()))
		}
	case reflect.Slice:
		if !v.IsNil() {
			out.Set(reflect.MakeSlice(v.Type(), v.Len(), v.Len()))
			for i := range v.Len() {
				out.Index(i).Set(cloneValue(v.Index(i)))
			}
		}
	case reflect.Map:
		if !v.IsNil() {
			out.Set(reflect.MakeMapWithSize(v.Type(), v.Len()))
			for _, key := range v.MapKeys() {
				out.SetMapIndex(key, cloneValue(v.MapIndex(key)))
			}
		}
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() {
				out.Field(i).Set(cloneValue(v.Field(i)))
			}
		}
	}
	return out
}
