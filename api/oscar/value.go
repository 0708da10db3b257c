package oscar

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode/utf8"
)

// kind of a value.
type kind int

const (
	kindNull kind = iota
	kindBool
	kindNumber
	kindString
	kindArray
	kindObject
)

func (k kind) String() string {
	switch k {
	case kindNull:
		return "null"
	case kindBool:
		return "a boolean"
	case kindNumber:
		return "a number"
	case kindString:
		return "a string"
	case kindArray:
		return "an array"
	default:
		return "an object"
	}
}

// value is a JSON or YAML value before it has a type. Both languages are read
// into it, so that there is one place where types are checked.
type value struct {
	kind kind
	// line of an object in its YAML; 0 elsewhere.
	line int
	// text of a scalar: a string's content, a number or boolean as it was written.
	text string
	// block says that it is a block scalar of YAML: one after | or >.
	block bool
	// number is the JSON form of a number whose text is none, as 0x10 in YAML.
	number string
	items  []*value
	fields []entry
}

// entry is a key of an object. Keys are unique: the last one counts.
type entry struct {
	key   string
	value *value
}

func (v *value) get(key string) *value {
	if v == nil {
		return nil
	}
	for i := range v.fields {
		if v.fields[i].key == key {
			return v.fields[i].value
		}
	}
	return nil
}

// field finds a key as encoding/json does: exactly, else in any case.
func (v *value) field(key string) *value {
	if found := v.get(key); found != nil || v == nil {
		return found
	}
	for _, f := range slices.Backward(v.fields) {
		if strings.EqualFold(f.key, key) {
			return f.value
		}
	}
	return nil
}

// errTooMany is of a text with more values than a service can need.
var errTooMany = fmt.Errorf("more than %d values", maxValues)

// parser reads JSON into values within limits.
type parser struct {
	dec   *json.Decoder
	count int
}

// parseJSON reads one JSON text. What it reports is a single violation.
func parseJSON(data []byte, what string, limit int) (*value, *Violation) {
	if len(data) > limit {
		return nil, &Violation{Rule: RuleMaxBytes, Value: len(data), Message: fmt.Sprintf(
			"%s of %d bytes is too large; the limit is %d bytes", what, len(data), limit)}
	}
	if !utf8.Valid(data) {
		return nil, &Violation{Rule: RuleType, Message: fmt.Sprintf("%s is not UTF-8 text", what)}
	}
	var whole json.RawMessage
	if err := json.Unmarshal(data, &whole); err != nil {
		return nil, syntaxViolation(what, err)
	}
	p := parser{dec: json.NewDecoder(bytes.NewReader(data))}
	p.dec.UseNumber()
	v, err := p.value(0)
	if err != nil {
		rule := RuleType
		if errors.Is(err, errTooMany) {
			rule = RuleMaxBytes
		}
		return nil, &Violation{Rule: rule, Message: fmt.Sprintf("%s is not usable: %v", what, err)}
	}
	return v, nil
}

func syntaxViolation(what string, err error) *Violation {
	message := fmt.Sprintf("%s is not valid JSON: %v", what, err)
	if syntax, ok := errors.AsType[*json.SyntaxError](err); ok {
		message = fmt.Sprintf("%s is not valid JSON at byte %d: %v", what, syntax.Offset, err)
	}
	return &Violation{Rule: RuleType, Message: message}
}

func (p *parser) value(depth int) (*value, error) {
	tok, err := p.dec.Token()
	if err != nil {
		return nil, err
	}
	return p.from(tok, depth)
}

func (p *parser) from(tok json.Token, depth int) (*value, error) {
	if p.count++; p.count > maxValues {
		return nil, errTooMany
	}
	switch t := tok.(type) {
	case nil:
		return &value{kind: kindNull, text: "null"}, nil
	case bool:
		return &value{kind: kindBool, text: fmt.Sprint(t)}, nil
	case json.Number:
		return &value{kind: kindNumber, text: t.String()}, nil
	case string:
		return &value{kind: kindString, text: t}, nil
	case json.Delim:
		if depth >= MaxDepth {
			return nil, fmt.Errorf("nested deeper than %d", MaxDepth)
		}
		if t == '[' {
			return p.array(depth)
		}
		return p.object(depth)
	}
	return nil, io.ErrUnexpectedEOF
}

func (p *parser) array(depth int) (*value, error) {
	v := &value{kind: kindArray}
	for p.dec.More() {
		item, err := p.value(depth + 1)
		if err != nil {
			return nil, err
		}
		v.items = append(v.items, item)
	}
	_, err := p.dec.Token()
	return v, err
}

func (p *parser) object(depth int) (*value, error) {
	v := &value{kind: kindObject}
	at := map[string]int{}
	for p.dec.More() {
		tok, err := p.dec.Token()
		if err != nil {
			return nil, err
		}
		key, _ := tok.(string)
		item, err := p.value(depth + 1)
		if err != nil {
			return nil, err
		}
		if i, ok := at[key]; ok {
			v.fields[i].value = item
			continue
		}
		at[key] = len(v.fields)
		v.fields = append(v.fields, entry{key, item})
	}
	_, err := p.dec.Token()
	return v, err
}

// asText is the value with its numbers and booleans as texts.
func (v *value) asText() *value {
	out := *v
	switch v.kind {
	case kindNumber, kindBool:
		return &value{kind: kindString, text: v.text}
	case kindArray:
		out.items = make([]*value, len(v.items))
		for i, item := range v.items {
			out.items[i] = item.asText()
		}
	case kindObject:
		out.fields = make([]entry, len(v.fields))
		for i, f := range v.fields {
			out.fields[i] = entry{f.key, f.value.asText()}
		}
	}
	return &out
}

// digits is a number as JSON writes it.
func (v *value) digits() string {
	if v.number != "" {
		return v.number
	}
	return v.text
}

// appendJSON writes a value as compact JSON.
func (v *value) appendJSON(b []byte) []byte {
	switch v.kind {
	case kindNull:
		return append(b, "null"...)
	case kindBool:
		return append(b, v.text...)
	case kindNumber:
		return append(b, v.digits()...)
	case kindString:
		return appendString(b, v.text)
	case kindArray:
		b = append(b, '[')
		for i, item := range v.items {
			if i > 0 {
				b = append(b, ',')
			}
			b = item.appendJSON(b)
		}
		return append(b, ']')
	default:
		b = append(b, '{')
		for i, f := range v.fields {
			if i > 0 {
				b = append(b, ',')
			}
			b = append(appendString(b, f.key), ':')
			b = f.value.appendJSON(b)
		}
		return append(b, '}')
	}
}

// appendString writes a JSON string without HTML escapes: scripts stay readable. It writes ASCII text with the four usual
// escapes itself, since an encoder and its buffer for each string were most of what encoding a service cost.
func appendString(b []byte, s string) []byte {
	start := len(b)
	b = append(b, '"')
	for i := range len(s) {
		switch c := s[i]; {
		case c == '"' || c == '\\':
			b = append(b, '\\', c)
		case c == '\n':
			b = append(b, '\\', 'n')
		case c == '\t':
			b = append(b, '\\', 't')
		case c < ' ' || c >= utf8.RuneSelf:
			return appendAnyString(b[:start], s)
		default:
			b = append(b, c)
		}
	}
	return append(b, '"')
}

// appendAnyString is appendString for any text, by encoding/json.
func appendAnyString(b []byte, s string) []byte {
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(s); err != nil {
		return append(b, `""`...) // a string always encodes
	}
	return append(b, bytes.TrimSuffix(buf.Bytes(), []byte("\n"))...)
}

// same says whether two values are written as the same bytes.
func (v *value) same(other *value) bool {
	return string(v.appendJSON(nil)) == string(other.appendJSON(nil))
}
