package invariants

import (
	"encoding/json"
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

// joined is the service that a record has by itself, or by its parts and changes; whole is false
// when a part is not there.
func (c *checker) joined(federation string, service json.RawMessage, parts []string, changes json.RawMessage) (_ json.RawMessage, whole bool) {
	if len(parts) == 0 {
		return service, true
	}
	var tree any
	var text strings.Builder
	apply := func(patch string) {
		var p any
		if json.Unmarshal([]byte(patch), &p) == nil {
			tree = merged(tree, p)
		}
	}
	for _, name := range parts {
		part := as[record.Part](c.now(record.PartKey(federation, name)))
		switch {
		case part == nil:
			return nil, false
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
	apply(string(changes))
	out, err := json.Marshal(tree)
	return out, err == nil
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
