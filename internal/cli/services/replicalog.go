package services

import (
	"strings"

	v1 "github.com/oscarfed/oscarfed/api/v1"
	"github.com/oscarfed/oscarfed/internal/cli/output"
)

// replicaLog writes a row for each replica that has changed.
type replicaLog struct {
	rows             *output.RowLog
	begun, noHeaders bool
	// shown has the row of each replica by its address, in the order of order.
	shown map[string]string
	order []string
}

func (l *replicaLog) show(view *v1.Replicas) error {
	t := viewTable(view)
	if !l.begun {
		l.begun = true
		l.rows.Fit(append(t.Rows, []string{"", "", v1.PhaseUnreachable})...) // the longest phase
		if !l.noHeaders {
			if err := l.rows.Write(t.Rows[0]); err != nil {
				return err
			}
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
		if err := l.rows.Write(row); err != nil {
			return err
		}
	}
	return l.gone(present)
}

// gone says of the replicas which the view has no longer that they are removed.
func (l *replicaLog) gone(present map[string]bool) error {
	kept := l.order[:0]
	for _, name := range l.order {
		if present[name] {
			kept = append(kept, name)
			continue
		}
		row := strings.Split(l.shown[name], "\t")
		delete(l.shown, name)
		if err := l.rows.Write([]string{row[0], row[1], "removed"}); err != nil {
			return err
		}
	}
	l.order = kept
	return nil
}
