package oscar

import "fmt"

// maxMergeBytes is the size of a document or a patch that MergePatch reads.
const maxMergeBytes = 4 * MaxServiceBytes

// MergePatch applies an RFC 7386 merge patch to a document and returns the result
// as compact JSON. Fields keep the document's order, new ones follow in the
// patch's. An empty document or patch is null, respectively {}. It fails on what
// is not JSON, too large or nested deeper than MaxDepth; the error is a Violation
// and holds no value of either.
func MergePatch(doc, patch []byte) ([]byte, error) {
	target, err := parseOr(doc, "the document", &value{kind: kindNull})
	if err != nil {
		return nil, err
	}
	change, err := parseOr(patch, "the patch", &value{kind: kindObject})
	if err != nil {
		return nil, err
	}
	return mergeInto(target, change).appendJSON(nil), nil
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
