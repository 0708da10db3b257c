package cli

import (
	"fmt"
	"io"
	"strconv"
	"strings"

	v1 "github.com/oscarfed/oscarfed/api/v1"
)

// rowLog writes a row for each replica that has changed. Columns are as wide as
// what they have had so far.
type rowLog struct {
	w      io.Writer
	widths []int
	// shown has the row of each replica by its address.
	shown map[string]string
	order []string
}

func newRowLog(w io.Writer) *rowLog { return &rowLog{w: w, shown: map[string]string{}} }

func (l *rowLog) show(view *v1.Replicas) error {
	t := viewTable(view)
	if l.widths == nil {
		l.fit(append(t.Rows, []string{"", "", "unreachable"})...) // the longest phase
		if err := l.write(t.Rows[0]); err != nil {
			return err
		}
	}
	present := map[string]bool{}
	for _, row := range t.Rows[1:] {
		name, text := row[0]+"/"+row[1], strings.Join(row, "\t")
		present[name] = true
		was, known := l.shown[name]
		if was == text {
			continue
		}
		if !known {
			l.order = append(l.order, name)
		}
		l.shown[name] = text
		if err := l.write(row); err != nil {
			return err
		}
	}
	return l.gone(present)
}

// gone says of the replicas which the view has no longer that they are removed.
func (l *rowLog) gone(present map[string]bool) error {
	kept := l.order[:0]
	for _, name := range l.order {
		if present[name] {
			kept = append(kept, name)
			continue
		}
		row := strings.Split(l.shown[name], "\t")
		delete(l.shown, name)
		if err := l.write([]string{row[0], row[1], "removed"}); err != nil {
			return err
		}
	}
	l.order = kept
	return nil
}

func (l *rowLog) fit(rows ...[]string) {
	for _, row := range rows {
		for len(l.widths) < len(row) {
			l.widths = append(l.widths, 0)
		}
		for i, cell := range row {
			l.widths[i] = max(l.widths[i], len([]rune(cell)))
		}
	}
}

func (l *rowLog) write(row []string) error {
	l.fit(row)
	var b strings.Builder
	for i, cell := range row {
		b.WriteString(fmt.Sprintf("%-"+strconv.Itoa(l.widths[i]+3)+"s", cell))
	}
	_, err := fmt.Fprintln(l.w, strings.TrimRight(b.String(), " "))
	return err
}
