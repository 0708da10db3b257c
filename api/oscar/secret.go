package oscar

import (
	"encoding/json"
	"maps"
	"reflect"
	"slices"
	"strings"
)

// SplitSecrets parts a service into what may be read by everybody and what must
// be sealed. In public every secret is "" and its key stays; patch is an RFC 7386
// merge patch with the secret leaves alone, {} when there is none, so that
//
//	MergePatch(public, patch)
//
// is the service again. Secret are: token, the values of environment.secrets and
// of top-level secrets, the fields of storage_providers that hold credentials, and
// the values of member headers (an array cannot be patched in parts: with one
// header, all of members is in the patch). In neither are user and password in
// clusters, for which the control plane has no use, and the user's refresh token,
// which travels on its own (TakeRefreshToken).
func SplitSecrets(s *Service) (public *Service, patch json.RawMessage) {
	clone := s.Clone()
	clone.TakeRefreshToken()
	clone.dropCredentials()
	tree := treeOf(clone)
	open, sealed := splitObject(nil, tree, false)
	if sealed == nil {
		sealed = &value{kind: kindObject}
	}
	return serviceOfTree(open, s), sealed.appendJSON(nil)
}

// dropCredentials removes what OSCARs would log in with at each other.
func (s *Service) dropCredentials() {
	for id, c := range s.Clusters {
		c.AuthUser, c.AuthPassword = "", ""
		for key := range c.Extra {
			if secretKey(key) {
				delete(c.Extra, key)
			}
		}
		s.Clusters[id] = c
	}
}

// treeOf is the service as an untyped value.
func treeOf(s *Service) *value {
	tree, violation := parseTrusted(mustEncode(s))
	if violation != nil { // what we encode is JSON; Extra was parsed once
		return &value{kind: kindObject}
	}
	return tree
}

// parseTrusted reads our own encoding, which may be larger than an input may be.
func parseTrusted(data []byte) (*value, *Violation) {
	return parseJSON(data, "the service", maxMergeBytes)
}

func serviceOfTree(tree *value, like *Service) *Service {
	s := &Service{}
	var d decoder
	d.into("", tree, reflect.ValueOf(s).Elem())
	s.full, s.from, s.faults = like.full, like.from, like.faults
	return s
}

func mustEncode(s *Service) []byte {
	return encoder{}.append(nil, reflect.ValueOf(*s))
}

// splitObject walks down; secret is set below a place where everything is secret.
// sealed is nil when nothing was taken out.
func splitObject(path []string, v *value, secret bool) (open, sealed *value) {
	switch v.kind {
	case kindObject:
		open = &value{kind: kindObject}
		for _, f := range v.fields {
			at := append(slices.Clip(path), f.key)
			o, s := splitObject(at, f.value, secret || secretAt(at))
			open.fields = append(open.fields, entry{f.key, o})
			if s != nil {
				if sealed == nil {
					sealed = &value{kind: kindObject}
				}
				sealed.fields = append(sealed.fields, entry{f.key, s})
			}
		}
		return open, sealed
	case kindArray:
		open = &value{kind: kindArray}
		at := append(slices.Clip(path), "[]")
		for _, item := range v.items {
			o, s := splitObject(at, item, secret)
			open.items = append(open.items, o)
			if s != nil {
				sealed = v // RFC 7386 replaces an array as a whole
			}
		}
		return open, sealed
	case kindNull:
		return v, nil
	}
	if !secret || v.text == "" || v.kind == kindString && v.text == HiddenCredential {
		return v, nil
	}
	return &value{kind: kindString}, v
}

// secretAt says whether everything at and below a path is secret.
func secretAt(path []string) bool {
	switch {
	case len(path) == 1:
		return path[0] == "token"
	case path[0] == "environment":
		return len(path) == 3 && path[1] == "secrets"
	case path[0] == "secrets":
		return true
	case path[0] == "storage_providers":
		return len(path) > 3 && secretKey(path[len(path)-1])
	case path[0] == "federation":
		return len(path) == 5 && path[1] == "members" && path[3] == "headers"
	}
	return false
}

// secretKey says by its name whether a field of a storage provider holds a
// credential. Unknown providers have fields that we do not know: a name that
// sounds like a credential is taken for one.
func secretKey(name string) bool {
	name = strings.ToLower(name)
	switch name {
	case "token_endpoint", "key_prefix":
		return false
	}
	for _, part := range []string{"secret", "token", "password", "passwd", "passphrase", "key", "credential", "private", "sas", "auth_header"} {
		if strings.Contains(name, part) {
			return true
		}
	}
	return false
}

// KeepAbsent fills in what a changed definition leaves out as a whole, and which stays as it is then:
// environment.secrets, as at OSCAR, and the federation, which clients of OSCAR v3 do not know. An empty
// object, or empty replicas, say that there are none.
func (s *Service) KeepAbsent(old *Service) {
	if old.Federation != nil && (s.Federation == nil || s.from.alone) {
		f := clone(*old.Federation)
		if s.from.delegation {
			f.Delegation = s.Federation.Delegation
		}
		if s.from.threshold {
			f.ReschedulerThreshold = s.Federation.ReschedulerThreshold
		}
		s.Federation, s.from = &f, v3Origin{}
	}
	if s.Environment.Secrets == nil {
		s.Environment.Secrets = maps.Clone(old.Environment.Secrets)
	}
}

// KeepSecrets completes the patch of a changed service with the secrets that its
// owner did not send again: in a change an empty value means unchanged, since no
// answer ever shows one. A key that public does not have any more stays away, and
// so does the service's token, which belongs to one life and not to its owner.
func KeepSecrets(public *Service, patch, old json.RawMessage) (json.RawMessage, error) {
	now, err := parseOr(patch, "the patch", &value{kind: kindObject})
	if err != nil {
		return nil, err
	}
	before, err := parseOr(old, "the old patch", &value{kind: kindObject})
	if err != nil {
		return nil, err
	}
	tree := treeOf(public)
	if members := before.get("federation").get("members"); members != nil {
		keepHeaders(tree, now, members)
		before.get("federation").remove("members")
	}
	if kept := keep(nil, tree, now, before); kept != nil {
		now = kept
	}
	return now.appendJSON(nil), nil
}

// keep copies leaves of old into now where public has an empty value.
func keep(path []string, public, now, old *value) *value {
	if old.kind == kindArray {
		// It stands for the whole array: kept only if nothing else in it changed.
		if open, _ := splitObject(path, old, false); now == nil && public != nil && open.same(public) {
			return old
		}
		return now
	}
	if old.kind != kindObject {
		optional := len(path) > 3 && path[0] == "storage_providers" // its empty fields are not written
		if now == nil && (public == nil && optional || public != nil && public.kind == kindString && public.text == "") {
			return old
		}
		return now
	}
	if public == nil || public.kind != kindObject {
		return now
	}
	for _, f := range old.fields {
		at := append(slices.Clip(path), f.key)
		item := keep(at, public.get(f.key), now.get(f.key), f.value)
		if item == nil {
			continue
		}
		if now == nil {
			now = &value{kind: kindObject}
		}
		now.set(f.key, item)
	}
	return now
}

// keepHeaders fills empty header values of members from the old list, member by
// member, and puts the list into the patch when something was filled.
func keepHeaders(public, now, old *value) {
	members := public.get("federation").get("members")
	if sealed := now.get("federation").get("members"); sealed != nil {
		members = sealed
	}
	if members == nil {
		return
	}
	headers := map[MemberKey]*value{}
	for _, m := range old.items {
		headers[keyOfTree(m)] = m.get("headers")
	}
	changed := false
	for _, m := range members.items {
		mine, theirs := m.get("headers"), headers[keyOfTree(m)]
		if mine == nil || theirs == nil {
			continue
		}
		for i, h := range mine.fields {
			if was := theirs.get(h.key); was != nil && was.text != "" && h.value.kind == kindString && h.value.text == "" {
				mine.fields[i].value, changed = was, true
			}
		}
	}
	if changed {
		federation := now.get("federation")
		if federation == nil {
			federation = &value{kind: kindObject}
		}
		federation.set("members", members)
		now.set("federation", federation)
	}
}

func keyOfTree(v *value) MemberKey {
	var m Member
	var d decoder
	d.into("", v, reflect.ValueOf(&m).Elem())
	return m.Key()
}
