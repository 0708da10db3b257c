package oscar

import "fmt"

// maxMergeBytes is the size of a document or a patch that MergePatch reads.
const maxMergeBytes = 4 * MaxServiceBytes

// MergePatch applies RFC 7386 merge patches to a document, one after the other, and returns the
// result as compact JSON. Fields keep the document's order, new ones follow in the
// patch's. An empty document or patch is null, respectively {}. It fails on what
// is not JSON, too large or nested deeper than MaxDepth; the error is a Violation
// and holds no value of either.
func MergePatch(doc []byte, patches ...[]byte) ([]byte, error) {
	target, err := parseOr(doc, "the document", &value{kind: kindNull})
	if err != nil {
		return nil, err
	}
	for _, patch := range patches {
		change, err := parseOr(patch, "the patch", &value{kind: kindObject})
		if err != nil {
			return nil, err
		}
		target = mergeInto(target, change)
	}
	return target.appendJSON(nil), nil
}

// MakePatch is the merge patch that makes one object of another. ok is false when there is none:
// a patch cannot write a null. Its errors are those of MergePatch.
func MakePatch(from, to []byte) (patch []byte, ok bool, err error) {
	a, err := parseOr(from, "the document", &value{kind: kindNull})
	if err != nil {
		return nil, false, err
	}
	b, err := parseOr(to, "the document", &value{kind: kindNull})
	if err != nil {
		return nil, false, err
	}
	if a.kind != kindObject || b.kind != kindObject {
		return nil, false, nil
	}
	change, ok := patchOf(a, b)
	if !ok {
		return nil, false, nil
	}
	return change.appendJSON(nil), true, nil
}

// patchOf is MakePatch of two objects.
func patchOf(from, to *value) (*value, bool) {
	had := make(map[string]*value, len(from.fields))
	for _, f := range from.fields {
		had[f.key] = f.value
	}
	out := &value{kind: kindObject}
	for _, f := range to.fields {
		old := had[f.key]
		delete(had, f.key)
		switch {
		case old != nil && old.equals(f.value):
		case old != nil && old.kind == kindObject && f.value.kind == kindObject:
			inner, ok := patchOf(old, f.value)
			if !ok {
				return nil, false
			}
			out.fields = append(out.fields, entry{f.key, inner})
		case f.value.hasNull():
			return nil, false
		default:
			out.fields = append(out.fields, entry{f.key, f.value})
		}
	}
	for _, f := range from.fields {
		if had[f.key] != nil {
			out.fields = append(out.fields, entry{f.key, &value{kind: kindNull}})
		}
	}
	return out, true
}

// equals says whether two values are the same JSON with the same order of fields.
func (v *value) equals(other *value) bool {
	if v.kind != other.kind || len(v.items) != len(other.items) || len(v.fields) != len(other.fields) {
		return false
	}
	switch v.kind {
	case kindArray:
		for i := range v.items {
			if !v.items[i].equals(other.items[i]) {
				return false
			}
		}
		return true
	case kindObject:
		for i := range v.fields {
			if v.fields[i].key != other.fields[i].key || !v.fields[i].value.equals(other.fields[i].value) {
				return false
			}
		}
		return true
	case kindNumber:
		return v.digits() == other.digits()
	default:
		return v.text == other.text
	}
}

// hasNull says whether a merge patch cannot write the value: a null stands in it, outside of
// arrays.
func (v *value) hasNull() bool {
	if v.kind == kindNull {
		return true
	}
	for _, f := range v.fields {
		if f.value.hasNull() {
			return true
		}
	}
	return false
}

func parseOr(data []byte, what string, empty *value) (*value, error) {
	if len(data) == 0 {
		return empty, nil
	}
	v, violation := parseJSON(data, what, maxMergeBytes)
	if violation != nil {
		return nil, fmt.Errorf("merge: %w", *violation)
	}
	return v, nil
}

// mergeInto is the function MergePatch of RFC 7386, section 2. It may change target.
func mergeInto(target, patch *value) *value {
	if patch.kind != kindObject {
		return patch
	}
	if target == nil || target.kind != kindObject {
		target = &value{kind: kindObject}
	}
	for _, change := range patch.fields {
		if change.value.kind == kindNull {
			target.remove(change.key)
			continue
		}
		target.set(change.key, mergeInto(target.get(change.key), change.value))
	}
	return target
}

func (v *value) set(key string, item *value) {
	for i := range v.fields {
		if v.fields[i].key == key {
			v.fields[i].value = item
			return
		}
	}
	v.fields = append(v.fields, entry{key, item})
}

func (v *value) remove(key string) {
	for i := range v.fields {
		if v.fields[i].key == key {
			v.fields = append(v.fields[:i], v.fields[i+1:]...)
			return
		}
	}
}
