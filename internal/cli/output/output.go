package output

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"
	"unicode"

	"sigs.k8s.io/yaml"

	"github.com/oscarfed/oscarfed/internal/cli/exit"
)

// Form is how results are printed.
type Form string

// The forms of results.
const (
	FormTable Form = "table"
	formJSON  Form = "json"
	FormYAML  Form = "yaml"
)

// Encoded says whether the form is for programs.
func (f Form) Encoded() bool { return f == formJSON || f == FormYAML }

// FormOf chooses the form: what was given, else what is configured, else a table.
func FormOf(given, configured string) (Form, error) {
	switch f := Form(cmp.Or(given, configured, string(FormTable))); f {
	case FormTable, formJSON, FormYAML:
		return f, nil
	default:
		return "", exit.Usagef("output %q is unknown; use table, json or yaml", string(f))
	}
}

// Table collects rows whose columns are aligned when they are written.
type Table struct{ Rows [][]string }

// NewTable makes a table with a head.
func NewTable(columns ...string) *Table { return &Table{Rows: [][]string{columns}} }

// Row adds a row. What comes from elsewhere is made printable.
func (t *Table) Row(cells ...string) {
	for i, c := range cells {
		cells[i] = Printable(c)
	}
	t.Rows = append(t.Rows, cells)
}

// Write writes the rows with their columns aligned.
func (t *Table) Write(w io.Writer) error {
	var b bytes.Buffer
	tw := tabwriter.NewWriter(&b, 0, 0, 3, ' ', 0)
	for _, row := range t.Rows {
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

// Encode writes a value as JSON or YAML; the table form is the caller's.
func Encode(w io.Writer, f Form, v any) error {
	var (
		data []byte
		err  error
	)
	if f == FormYAML {
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

// Printable makes one line out of a text that came from elsewhere and takes out
// what a terminal would obey.
func Printable(s string) string {
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

// Age is how long ago something was, in its one or two largest units.
func Age(since, now time.Time) string {
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

// YesNo is a truth as a word.
func YesNo(b bool) string {
	if b {
		return "yes"
	}
	return "no"
}
