package invariants

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"

	"github.com/oscarfed/oscarfed/store/record"
)

// partsAreThere: what a living record names is in the store at each revision at which the record
// is. Nobody else knows what the record speaks of.
func (c *checker) partsAreThere(federation, key string, names ...string) {
	for _, name := range names {
		if c.now(record.PartKey(federation, name)) == nil {
			c.violatef(RuleAtomic, key, "part %s, which it names, is not in the store", name)
		}
	}
}

// rendered is what is judged of a service that is sent to an OSCAR.
type rendered struct {
	Name        string            `json:"name"`
	ClusterID   string            `json:"cluster_id"`
	Annotations map[string]string `json:"annotations"`
	Federation  struct {
		Members []json.RawMessage `json:"members"`
	} `json:"federation"`
}

// readRendered reads a service. Its texts are skipped: they are most of its bytes, and no rule
// looks at them.
func readRendered(tree any) (s rendered, err error) {
	top, ok := tree.(map[string]any)
	if !ok {
		return s, fmt.Errorf("it is a %T", tree)
	}
	short := map[string]any{}
	for _, name := range []string{"name", "cluster_id", "annotations", "federation"} {
		if value, ok := top[name]; ok {
			short[name] = value
		}
	}
	data, err := json.Marshal(short)
	if err != nil {
		return s, err
	}
	return s, json.Unmarshal(data, &s)
}

// serviceOf is the service that a spec has by itself, or by its parts and changes; whole is false
// when a part is not there.
func (c *checker) serviceOf(federation string, spec *record.Spec) (s rendered, whole bool, err error) {
	if len(spec.Parts) == 0 {
		return s, true, json.Unmarshal(spec.Service, &s)
	}
	tree, whole := c.treeOf(federation, spec)
	if !whole {
		return s, false, nil
	}
	s, err = readRendered(tree)
	return s, true, err
}

// treeOf is the service that a spec with parts stands for; whole is false when a part is not there.
func (c *checker) treeOf(federation string, spec *record.Spec) (tree any, whole bool) {
	patches, whole := c.patches(federation, spec.Parts)
	if !whole {
		return nil, false
	}
	for _, patch := range patches {
		tree = merged(tree, patch)
	}
	var changes any
	if err := json.Unmarshal(spec.Changes, &changes); err == nil {
		tree = merged(tree, changes)
	}
	return tree, true
}

// madeWhole: a spec without parts took the place of one with parts, and both say the same.
func (c *checker) madeWhole(cluster string, old, now *record.Desired) bool {
	from, to := as[record.Spec](c.before(record.SpecKey(cluster, old.Spec))), as[record.Spec](c.now(record.SpecKey(cluster, now.Spec)))
	if from == nil || to == nil || len(from.Parts) == 0 || len(to.Parts) > 0 {
		return false
	}
	was, whole := c.treeOf(old.Federation, from)
	var is any
	return whole && json.Unmarshal(to.Service, &is) == nil && reflect.DeepEqual(was, is)
}

// patchesOf are the patches that parts of a federation make together.
type patchesOf struct {
	federation, parts string
	patches           []any
}

// patches are what parts stand for. Those that were asked for last are kept: all members of a
// federation name the same ones, and they are large.
func (c *checker) patches(federation string, parts []string) (out []any, whole bool) {
	var text strings.Builder
	apply := func(patch string) {
		var p any
		if json.Unmarshal([]byte(patch), &p) == nil {
			out = append(out, p)
		}
	}
	// Where each part stands: one that was written again is read again.
	var state strings.Builder
	for _, name := range parts {
		e := c.now(record.PartKey(federation, name))
		if as[record.Part](e) == nil {
			return nil, false
		}
		fmt.Fprintf(&state, "%s@%d ", name, e.kv.ModRevision)
	}
	if last := c.parts; last.federation == federation && last.parts == state.String() {
		return last.patches, true
	}
	for _, name := range parts {
		part := as[record.Part](c.now(record.PartKey(federation, name)))
		switch {
		case part.Sealed != "":
		case part.Piece != "":
			text.WriteString(part.Piece)
			if !part.More {
				apply(text.String())
				text.Reset()
			}
		default:
			apply(string(part.Service))
		}
	}
	c.parts = patchesOf{federation: federation, parts: state.String(), patches: out}
	return out, true
}

// merged is RFC 7386, section 2.
func merged(target, patch any) any {
	change, ok := patch.(map[string]any)
	if !ok {
		return patch
	}
	out, ok := target.(map[string]any)
	if !ok {
		out = map[string]any{}
	}
	for key, value := range change {
		if value == nil {
			delete(out, key)
			continue
		}
		out[key] = merged(out[key], value)
	}
	return out
}
