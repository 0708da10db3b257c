package output

import (
	"fmt"
	"io"
	"strconv"
	"strings"
)

// RowLog writes rows one at a time. Columns are as wide as what they have had so far.
type RowLog struct {
	w      io.Writer
	widths []int
}

// NewRowLog writes to w.
func NewRowLog(w io.Writer) *RowLog { return &RowLog{w: w} }

// Fit makes the columns wide enough for rows that are not written yet.
func (l *RowLog) Fit(rows ...[]string) {
	for _, row := range rows {
		for len(l.widths) < len(row) {
			l.widths = append(l.widths, 0)
		}
		for i, cell := range row {
			l.widths[i] = max(l.widths[i], len([]rune(cell)))
		}
	}
}

// Write writes a row.
func (l *RowLog) Write(row []string) error {
	l.Fit(row)
	var b strings.Builder
	for i, cell := range row {
		b.WriteString(fmt.Sprintf("%-"+strconv.Itoa(l.widths[i]+3)+"s", cell))
	}
	_, err := fmt.Fprintln(l.w, strings.TrimRight(b.String(), " "))
	return err
}
