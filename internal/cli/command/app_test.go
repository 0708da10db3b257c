package command

import (
	"bytes"
	"encoding/json"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"

	"github.com/oscarfed/oscarfed/internal/cli/output"
)

// printed is what a command of n things prints in a form: a thing, a list of two, and another thing.
func printed(t *testing.T, form string, n int, end error) []byte {
	t.Helper()
	var out bytes.Buffer
	a := &App{Stdout: &out, Form: output.Form(form)}
	type thing struct {
		Name string `json:"name"`
	}
	err := a.Together(n, func(a *App) error {
		for _, v := range []any{thing{"a"}, []thing{{"b"}, {"c"}}, map[string]int{"d": 1}} {
			if err := a.Print(v, nil); err != nil {
				return err
			}
		}
		return a.Together(1, func(*App) error { return end })
	})
	if !errors.Is(err, end) {
		t.Errorf("-o %s ends with %v", form, err)
	}
	return out.Bytes()
}

func TestSeveralResultsAreOneListForPrograms(t *testing.T) {
	want := []any{
		map[string]any{"name": "a"}, map[string]any{"name": "b"}, map[string]any{"name": "c"}, map[string]any{"d": 1.0},
	}
	for form, parse := range map[string]func([]byte, any) error{
		"json": json.Unmarshal,
		"yaml": func(data []byte, v any) error { return yaml.UnmarshalStrict(data, v) },
	} {
		for _, end := range []error{nil, errors.New("the last one failed")} {
			var got any
			text := printed(t, form, 3, end)
			if err := parse(text, &got); err != nil || !cmp.Equal(got, want) {
				t.Errorf("-o %s is %v, %v:\n%s", form, got, err, text)
			}
		}
	}
	if got := printed(t, "jsonpath={range [*]}{.name};{end}", 3, nil); string(got) != "a;b;c;;\n" {
		t.Errorf("jsonpath gives %q", got)
	}
	if got := printed(t, "go-template={{range .}}{{.name}};{{end}}", 3, nil); string(got) != "a;b;c;<no value>;" {
		t.Errorf("a template gives %q", got)
	}
}
