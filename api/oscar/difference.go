package oscar

import (
	"encoding/json"
	"slices"
)

// Difference is one field in which two services differ.
type Difference struct {
	// Path is the JSON path. Members of a federation stand by their names and not
	// by their places: federation.members[cluster/service].
	Path string
	// Before and After are JSON values; nil where the field is not there.
	Before, After json.RawMessage
}

// Differences compares two services field by field. A field that is absent and one that is empty
// are the same, and so are members in another order. It knows of no secrets: a caller that shows
// the values compares what SplitSecrets calls public.
func Differences(before, after *Service) []Difference {
	var d differ
	d.walk("", treeOf(before), treeOf(after))
	return d.found
}

// Changes of a secret.
const (
	SecretAdded     = "added"
	SecretChanged   = "changed"
	SecretRemoved   = "removed"
	SecretUnchanged = "unchanged"
)

// SecretDifference says of one secret what becomes of it. Its values are nowhere.
type SecretDifference struct{ Path, Change string }

// SecretDifferences compares the patches of two services that SplitSecrets gave:
// every secret of either of them, in the order of the first, then of the second.
func SecretDifferences(before, after json.RawMessage) ([]SecretDifference, error) {
	was, err := parseOr(before, "the old patch", &value{kind: kindObject})
	if err != nil {
		return nil, err
	}
	is, err := parseOr(after, "the patch", &value{kind: kindObject})
	if err != nil {
		return nil, err
	}
	var old, now leaves
	old.collect("", nil, was)
	now.collect("", nil, is)
	var out []SecretDifference
	for _, path := range old.order {
		change := SecretUnchanged
		switch text, ok := now.text[path]; {
		case !ok:
			change = SecretRemoved
		case text != old.text[path]:
			change = SecretChanged
		}
		out = append(out, SecretDifference{path, change})
	}
	for _, path := range now.order {
		if _, ok := old.text[path]; !ok {
			out = append(out, SecretDifference{path, SecretAdded})
		}
	}
	return out, nil
}

// leaves are the secret scalars of a patch, by their paths.
type leaves struct {
	order []string
	text  map[string]string
}

func (l *leaves) collect(path string, at []string, v *value) {
	switch v.kind {
	case kindObject:
		for _, f := range v.fields {
			l.collect(joinPath(path, f.key), append(slices.Clip(at), f.key), f.value)
		}
	case kindArray:
		for i, item := range v.items {
			l.collect(itemPath(path, i, item), append(slices.Clip(at), "[]"), item)
		}
	case kindNull:
	default:
		if v.text == "" || !secretBelow(at) {
			return
		}
		if l.text == nil {
			l.text = map[string]string{}
		}
		l.order = append(l.order, path)
		l.text[path] = v.text
	}
}

// secretBelow says whether a path is at or below a place where everything is secret.
func secretBelow(at []string) bool {
	for n := range at {
		if secretAt(at[:n+1]) {
			return true
		}
	}
	return false
}

const membersPath = "federation.members"

// itemPath names an item of an array: a member by its name, else by its place.
func itemPath(path string, i int, item *value) string {
	if path == membersPath && item.kind == kindObject {
		return path + "[" + shorten(keyOfTree(item).String()) + "]"
	}
	return indexPath(path, i)
}

type differ struct{ found []Difference }

func (d *differ) walk(path string, before, after *value) {
	switch {
	case before.empty() && after.empty():
	case before == nil || after == nil || before.kind != after.kind:
		d.add(path, before, after)
	case before.kind == kindObject:
		d.objects(path, before, after)
	case path == membersPath:
		d.members(path, before, after)
	case before.kind == kindArray:
		for i := range max(len(before.items), len(after.items)) {
			d.walk(indexPath(path, i), at(before.items, i), at(after.items, i))
		}
	case before.text != after.text:
		d.add(path, before, after)
	}
}

func (d *differ) objects(path string, before, after *value) {
	for _, f := range before.fields {
		d.walk(joinPath(path, f.key), f.value, after.get(f.key))
	}
	for _, f := range after.fields {
		if before.get(f.key) == nil {
			d.walk(joinPath(path, f.key), nil, f.value)
		}
	}
}

func (d *differ) members(path string, before, after *value) {
	left := map[string]*value{}
	for i, m := range after.items {
		left[itemPath(path, i, m)] = m
	}
	for i, m := range before.items {
		name := itemPath(path, i, m)
		d.walk(name, m, left[name])
		delete(left, name)
	}
	for i, m := range after.items {
		if name := itemPath(path, i, m); left[name] != nil {
			d.walk(name, nil, m)
		}
	}
}

func (d *differ) add(path string, before, after *value) {
	d.found = append(d.found, Difference{Path: path, Before: before.json(), After: after.json()})
}

func (v *value) json() json.RawMessage {
	if v == nil {
		return nil
	}
	return v.appendJSON(nil)
}

// empty says whether a value says the same as no value. An object does when all
// in it does; a scalar only when it is null.
func (v *value) empty() bool {
	if v == nil || v.kind == kindNull {
		return true
	}
	if v.kind == kindArray {
		return len(v.items) == 0
	}
	if v.kind != kindObject {
		return false
	}
	for _, f := range v.fields {
		if !f.value.empty() {
			return false
		}
	}
	return true
}

func at(items []*value, i int) *value {
	if i < len(items) {
		return items[i]
	}
	return nil
}
