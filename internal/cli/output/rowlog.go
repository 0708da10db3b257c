package output

import (
	"fmt"
	"io"
	"slices"
	"strings"
)

// RowLog writes rows one at a time. Columns are as wide as what they have had so far.
type RowLog struct {
	w      io.Writer
	style  Style
	widths []int
}

// gap is what stands between two columns.
const gap = 3

// narrowest is what a column keeps when lines are too long: the longest state.
const narrowest = 12

// NewRowLog writes to w.
func NewRowLog(w io.Writer, style Style) *RowLog { return &RowLog{w: w, style: style} }

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
	widths := narrowed(l.widths, l.style.Width)
	room := l.style.Width
	var b strings.Builder
	for i, cell := range row {
		width := widths[i]
		if l.style.Width > 0 {
			width = min(width, room)
		}
		if l.style.Width > 0 && width <= 0 {
			break
		}
		room -= width + gap
		cell = Cut(cell, width)
		padding := strings.Repeat(" ", max(width-len([]rune(cell)), 0)+gap)
		if i > 0 {
			cell = l.style.State(cell)
		}
		b.WriteString(cell + padding)
	}
	_, err := fmt.Fprintln(l.w, strings.TrimRight(b.String(), " "))
	return err
}

// leastWidth is that of a line whose columns, all but the first, are as narrow as they can be.
func leastWidth(widths []int) int {
	least := -gap
	for i, w := range widths {
		if i > 0 {
			w = min(w, narrowest)
		}
		least += w + gap
	}
	return least
}

// narrowed takes from the widest columns until a line fits, and from the first one, which is the name,
// when nothing else is left.
func narrowed(widths []int, line int) []int {
	out := slices.Clone(widths)
	over := -line - gap
	for _, w := range out {
		over += w + gap
	}
	if line == 0 || len(out) == 0 {
		return out
	}
	over = takeFromWidest(out[1:], over)
	takeFromWidest(out, over)
	return out
}

// takeFromWidest makes columns narrower by so many characters together, and says how many it could not take.
func takeFromWidest(widths []int, over int) int {
	for ; over > 0 && len(widths) > 0; over-- {
		widest := 0
		for i, w := range widths {
			if w > widths[widest] {
				widest = i
			}
		}
		if widths[widest] <= narrowest {
			break
		}
		widths[widest]--
	}
	return over
}
