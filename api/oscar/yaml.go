package oscar

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"go.yaml.in/yaml/v3"
)

// maxExpandedBytes is how much text the aliases of a YAML document may expand to.
const maxExpandedBytes = 4 * MaxServiceBytes

// expander turns YAML nodes into values. Nodes share what an alias repeats, values
// do not: so it counts while it copies, and a document of a few lines that stands for
// gigabytes ends at a limit.
type expander struct {
	count, bytes int
}

// yamlError is a violation at a line of the document.
type yamlError struct {
	rule    string
	line    int
	message string
}

func (e *yamlError) Error() string {
	if e.line == 0 {
		return e.message
	}
	return fmt.Sprintf("line %d: %s", e.line, e.message)
}

// parseYAML reads one YAML document within the limits of parseJSON.
func parseYAML(data []byte, what string) (*value, *Violation) {
	if len(data) > MaxServiceBytes {
		return nil, &Violation{Rule: RuleMaxBytes, Value: len(data), Message: fmt.Sprintf(
			"%s of %d bytes is too large; the limit is %d bytes", what, len(data), MaxServiceBytes)}
	}
	v, err := readYAML(data)
	if err == nil {
		return v, nil
	}
	rule := RuleType
	if located, ok := errors.AsType[*yamlError](err); ok {
		rule = located.rule
	}
	why := strings.TrimPrefix(err.Error(), "yaml: ")
	if strings.Contains(why, "cannot start any token") {
		why += "; YAML is indented with spaces, not with tabs"
	}
	return nil, &Violation{Rule: rule, Message: fmt.Sprintf("%s is not usable YAML: %s", what, why)}
}

func readYAML(data []byte) (*value, error) {
	dec := yaml.NewDecoder(bytes.NewReader(data))
	var doc yaml.Node
	switch err := dec.Decode(&doc); {
	case errors.Is(err, io.EOF):
		return nil, errors.New("it is empty")
	case err != nil:
		return nil, err
	}
	var second yaml.Node
	if err := dec.Decode(&second); err == nil {
		return nil, &yamlError{RuleType, second.Line, "a second document begins; put one document into a file"}
	} else if !errors.Is(err, io.EOF) {
		return nil, err
	}
	if len(doc.Content) != 1 {
		return nil, errors.New("it is empty")
	}
	var e expander
	return e.expand(doc.Content[0], 0)
}

func (e *expander) expand(n *yaml.Node, depth int) (*value, error) {
	if depth > MaxDepth {
		return nil, &yamlError{RuleType, n.Line, fmt.Sprintf("nested deeper than %d", MaxDepth)}
	}
	if e.count++; e.count > maxValues {
		return nil, &yamlError{RuleMaxBytes, n.Line, fmt.Sprintf("more than %d values, aliases expanded", maxValues)}
	}
	switch n.Kind {
	case yaml.AliasNode:
		if n.Alias == nil {
			return nil, &yamlError{RuleType, n.Line, "an alias to nothing"}
		}
		return e.expand(n.Alias, depth+1)
	case yaml.ScalarNode:
		if e.bytes += len(n.Value); e.bytes > maxExpandedBytes {
			return nil, &yamlError{RuleMaxBytes, n.Line, fmt.Sprintf("more than %d bytes, aliases expanded", maxExpandedBytes)}
		}
		return scalar(n), nil
	case yaml.SequenceNode:
		v := &value{kind: kindArray}
		for _, item := range n.Content {
			expanded, err := e.expand(item, depth+1)
			if err != nil {
				return nil, err
			}
			v.items = append(v.items, expanded)
		}
		return v, nil
	case yaml.MappingNode:
		return e.mapping(n, depth)
	}
	return nil, &yamlError{RuleType, n.Line, "something that is neither a value, a list nor a mapping"}
}

func (e *expander) mapping(n *yaml.Node, depth int) (*value, error) {
	v := &value{kind: kindObject, line: n.Line}
	at := map[string]bool{}
	var merged []*value
	for i := 0; i+1 < len(n.Content); i += 2 {
		keyNode := n.Content[i]
		if keyNode.Kind == yaml.AliasNode && keyNode.Alias != nil {
			keyNode = keyNode.Alias
		}
		if keyNode.Kind != yaml.ScalarNode {
			return nil, &yamlError{RuleType, keyNode.Line, "a key must be a word"}
		}
		if e.bytes += len(keyNode.Value); e.bytes > maxExpandedBytes {
			return nil, &yamlError{RuleMaxBytes, keyNode.Line, fmt.Sprintf("more than %d bytes, aliases expanded", maxExpandedBytes)}
		}
		item, err := e.expand(n.Content[i+1], depth+1)
		if err != nil {
			return nil, err
		}
		if keyNode.Tag == "!!merge" {
			list, err := mergeList(item, keyNode.Line)
			if err != nil {
				return nil, err
			}
			merged = append(merged, list...)
			continue
		}
		if at[keyNode.Value] {
			return nil, &yamlError{RuleUnique, keyNode.Line, fmt.Sprintf("key %s is given twice", quote(keyNode.Value))}
		}
		at[keyNode.Value] = true
		v.fields = append(v.fields, entry{keyNode.Value, item})
	}
	// What stands in the mapping itself wins, then the earlier merge.
	for _, from := range merged {
		for _, f := range from.fields {
			if !at[f.key] {
				at[f.key] = true
				v.fields = append(v.fields, f)
			}
		}
	}
	return v, nil
}

// mergeList is what << takes: a mapping or a list of mappings.
func mergeList(v *value, line int) ([]*value, error) {
	list := []*value{v}
	if v.kind == kindArray {
		list = v.items
	}
	for _, item := range list {
		if item.kind != kindObject {
			return nil, &yamlError{RuleType, line, "<< takes a mapping or a list of mappings"}
		}
	}
	return list, nil
}

func scalar(n *yaml.Node) *value {
	switch n.ShortTag() {
	case "!!null":
		return &value{kind: kindNull}
	case "!!bool":
		return &value{kind: kindBool, text: strings.ToLower(n.Value)}
	case "!!int", "!!float":
		if json.Valid([]byte(n.Value)) {
			return &value{kind: kindNumber, text: n.Value}
		}
		// Hexadecimal, octal, .5, 1_000: its text is kept for fields that want a
		// string, as a password that begins with 0.
		var number any
		if err := n.Decode(&number); err == nil {
			if out, err := json.Marshal(number); err == nil && len(out) > 0 && out[0] != '"' {
				return &value{kind: kindNumber, text: n.Value, number: string(out)}
			}
		}
	}
	return &value{kind: kindString, text: n.Value, block: n.Style&(yaml.LiteralStyle|yaml.FoldedStyle) != 0}
}
