package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"
	"unicode"

	"sigs.k8s.io/yaml"
)

// form is how results are printed.
type form string

const (
	formTable form = "table"
	formJSON  form = "json"
	formYAML  form = "yaml"
)

// formOf chooses the form: what was given, else what is configured, else a table.
func formOf(given, configured string) (form, error) {
	switch f := form(first(given, configured, string(formTable))); f {
	case formTable, formJSON, formYAML:
		return f, nil
	default:
		return "", usageError("output %q is unknown; use table, json or yaml", string(f))
	}
}

// table collects rows whose columns are aligned when they are written.
type table struct{ rows [][]string }

func newTable(columns ...string) *table { return &table{rows: [][]string{columns}} }

// row adds a row. What comes from elsewhere is made printable.
func (t *table) row(cells ...string) {
	for i, c := range cells {
		cells[i] = printable(c)
	}
	t.rows = append(t.rows, cells)
}

func (t *table) write(w io.Writer) error {
	var b bytes.Buffer
	tw := tabwriter.NewWriter(&b, 0, 0, 3, ' ', 0)
	for _, row := range t.rows {
		fmt.Fprintln(tw, strings.Join(row, "\t"))
	}
	if err := tw.Flush(); err != nil {
		return err
	}
	for line := range strings.Lines(b.String()) {
		if _, err := fmt.Fprintln(w, strings.TrimRight(line, " \n")); err != nil {
			return err
		}
	}
	return nil
}

// encode writes a value as JSON or YAML; the table form is the caller's.
func encode(w io.Writer, f form, v any) error {
	var (
		data []byte
		err  error
	)
	if f == formYAML {
		data, err = yaml.Marshal(v)
	} else {
		data, err = json.MarshalIndent(v, "", "  ")
		data = append(data, '\n')
	}
	if err != nil {
		return err
	}
	_, err = w.Write(data)
	return err
}

// printable makes one line out of a text that came from elsewhere and takes out
// what a terminal would obey.
func printable(s string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\n' || r == '\t' || r == '\r':
			return ' '
		case unicode.IsControl(r) || r == unicode.ReplacementChar:
			return '?'
		}
		return r
	}, s)
}

// age is how long ago something was, in its one or two largest units.
func age(since, now time.Time) string {
	d := now.Sub(since)
	switch {
	case since.IsZero():
		return ""
	case d < 0:
		return "0s"
	case d < 2*time.Minute:
		return fmt.Sprintf("%ds", int(d.Seconds()))
	case d < 2*time.Hour:
		return fmt.Sprintf("%dm", int(d.Minutes()))
	case d < 48*time.Hour:
		return fmt.Sprintf("%dh", int(d.Hours()))
	}
	return fmt.Sprintf("%dd", int(d.Hours()/24))
}

func yesNo(b bool) string {
	if b {
		return "yes"
	}
	return "no"
}
