package output

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"text/template"

	"k8s.io/client-go/util/jsonpath"
	"sigs.k8s.io/yaml"

	"github.com/oscarfed/oscarfed/internal/cli/exit"
)

// Form is how results are printed: a table, or something for programs.
type Form string

// The forms of results. Those of the last two are followed by = and a template.
const (
	FormTable    Form = "table"
	FormWide     Form = "wide"
	FormName     Form = "name"
	FormFDL      Form = "fdl"
	FormMermaid  Form = "mermaid"
	FormDot      Form = "dot"
	FormSVG      Form = "svg"
	formJSON     Form = "json"
	FormYAML     Form = "yaml"
	formJSONPath      = "jsonpath="
	formTemplate      = "go-template="
)

// FormWords are the forms as a person writes them.
func FormWords() []string {
	return []string{string(FormTable), string(FormWide), string(FormName), string(formJSON), string(FormYAML), string(FormFDL), formJSONPath, formTemplate}
}

// Encoded says whether the form is for programs.
func (f Form) Encoded() bool { return f != FormTable && f != FormWide }

// FormOf chooses the form: what was given, else what is configured, else a table.
func FormOf(given, configured string) (Form, error) {
	f := Form(cmp.Or(given, configured, string(FormTable)))
	switch f {
	case FormTable, FormWide, FormName, FormFDL, FormMermaid, FormDot, FormSVG, formJSON, FormYAML:
		return f, nil
	}
	if text, ok := strings.CutPrefix(string(f), formJSONPath); ok {
		if _, err := pathOf(text); err != nil {
			return "", exit.Usagef("output %s: %w", f, err)
		}
		return f, nil
	}
	if text, ok := strings.CutPrefix(string(f), formTemplate); ok {
		if _, err := template.New("output").Parse(text); err != nil {
			return "", exit.Usagef("output %s: %w", f, err)
		}
		return f, nil
	}
	return "", exit.Usagef("output %q is unknown; use table, json or yaml, wide, name, fdl, jsonpath=TEMPLATE or go-template=TEMPLATE", string(f))
}

// Encode writes a value in a form for programs; the table form is the caller's.
func Encode(w io.Writer, f Form, v any) error {
	var data []byte
	var err error
	switch {
	case f == formJSON:
		data, err = json.MarshalIndent(v, "", "  ")
		data = append(data, '\n')
	case f == FormYAML:
		data, err = yaml.Marshal(v)
	case strings.HasPrefix(string(f), formJSONPath), strings.HasPrefix(string(f), formTemplate):
		data, err = filled(f, v)
	default:
		return exit.Usagef("-o %s is not for this command", f)
	}
	if err != nil {
		return err
	}
	_, err = w.Write(data)
	return err
}

// filled is a template of kubectl's kinds over the JSON of a value.
func filled(f Form, v any) ([]byte, error) {
	plain, err := Plain(v)
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	if text, ok := strings.CutPrefix(string(f), formJSONPath); ok {
		path, err := pathOf(text)
		if err != nil {
			return nil, err
		}
		if err := path.Execute(&b, plain); err != nil {
			return nil, fmt.Errorf("output %s: %w", f, err)
		}
		return append(b.Bytes(), '\n'), nil
	}
	t, err := template.New("output").Parse(strings.TrimPrefix(string(f), formTemplate))
	if err != nil {
		return nil, err
	}
	err = t.Execute(&b, plain)
	return b.Bytes(), err
}

// Path evaluates a JSONPath such as .cluster_id over what Plain made, as text.
func Path(text string, plain any) (string, error) {
	path, err := pathOf(text)
	if err != nil {
		return "", err
	}
	var b bytes.Buffer
	err = path.Execute(&b, plain)
	return b.String(), err
}

// pathOf takes {.a.b} and, as kubectl, .a.b and a.b.
func pathOf(text string) (*jsonpath.JSONPath, error) {
	if !strings.Contains(text, "{") {
		text = "{." + strings.TrimPrefix(text, ".") + "}"
	}
	path := jsonpath.New("output").AllowMissingKeys(true)
	return path, path.Parse(text)
}

// Plain is a value as JSON has it: maps, slices, text, numbers.
func Plain(v any) (plain any, err error) {
	data, err := json.Marshal(v)
	if err == nil {
		err = json.Unmarshal(data, &plain)
	}
	return plain, err
}

// EncodeNext writes one of many values: as JSON on a line of its own, as YAML in a
// document of its own.
func EncodeNext(w io.Writer, f Form, v any) error {
	if f == FormYAML {
		data, err := yaml.Marshal(v)
		if err == nil {
			_, err = fmt.Fprintf(w, "---\n%s", data)
		}
		return err
	}
	if f != formJSON {
		return Encode(w, f, v)
	}
	return json.NewEncoder(w).Encode(v)
}
