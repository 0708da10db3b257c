package output

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"time"
	"unicode"
)

// Table collects rows whose columns are aligned when they are written.
type Table struct {
	Rows [][]string
	// headed says that the first row is the head.
	headed bool
	// columns have names; optional ones are left out where a line has no room, in their order.
	columns, optional []string
}

// NewTable makes a table with a head.
func NewTable(columns ...string) *Table {
	return &Table{Rows: [][]string{columns}, headed: true, columns: columns}
}

// Optional names the columns that are left out where a line has no room for all, the first one first.
func (t *Table) Optional(columns ...string) *Table {
	t.optional = columns
	return t
}

// WithoutHead is the table without its head.
func (t *Table) WithoutHead() *Table {
	if !t.headed {
		return t
	}
	return &Table{Rows: t.Rows[1:], columns: t.columns, optional: t.optional}
}

// Names are the first column.
func (t *Table) Names() []string {
	rows := t.WithoutHead().Rows
	names := make([]string, 0, len(rows))
	for _, row := range rows {
		names = append(names, row[0])
	}
	return names
}

// Row adds a row. What comes from elsewhere is made printable.
func (t *Table) Row(cells ...string) {
	for i, c := range cells {
		cells[i] = Printable(c)
	}
	t.Rows = append(t.Rows, cells)
}

// fitting is the table without the optional columns for which a line has no room.
func (t *Table) fitting(width int) *Table {
	for _, column := range t.optional {
		rows := NewRowLog(io.Discard, Style{})
		rows.Fit(t.Rows...)
		if width == 0 || leastWidth(rows.widths) <= width {
			break
		}
		i := slices.Index(t.columns, column)
		without := func(row []string) []string { return slices.Delete(slices.Clone(row), i, i+1) }
		kept := &Table{headed: t.headed, columns: without(t.columns)}
		for _, row := range t.Rows {
			kept.Rows = append(kept.Rows, without(row))
		}
		t = kept
	}
	return t
}

// Write writes the rows with their columns aligned.
func (t *Table) Write(w io.Writer, style Style) error {
	t = t.fitting(style.Width)
	rows := NewRowLog(w, style)
	rows.Fit(t.Rows...)
	for _, row := range t.Rows {
		if err := rows.Write(row); err != nil {
			return err
		}
	}
	return nil
}

// Cut keeps the first n characters of a longer text; 0 keeps all.
func Cut(s string, n int) string {
	if r := []rune(s); n > 0 && len(r) > n {
		return string(r[:n-1]) + "…"
	}
	return s
}

// Printable makes one line out of a text that came from elsewhere and takes out
// what a terminal would obey.
func Printable(s string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\n' || r == '\t' || r == '\r':
			return ' '
		case unicode.IsControl(r) || r == unicode.ReplacementChar || unicode.In(r, unicode.Bidi_Control, unicode.Zl, unicode.Zp):
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

// When is a time and how long ago it was; empty for none.
func When(t, now time.Time) string {
	if t.IsZero() {
		return ""
	}
	return fmt.Sprintf("%s (%s ago)", t.UTC().Format(time.RFC3339), Age(t, now))
}

// YesNo is a truth as a word.
func YesNo(b bool) string {
	if b {
		return "yes"
	}
	return "no"
}

// Count is a number of things in words: 1 replica, 2 replicas.
func Count(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}
