package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
)

// revisions counts the transactions of a create, a change and a delete. It fails
// when there are more or fewer than promised.
func revisions(ctx context.Context, o options, out *report) (err error) {
	w, err := newBench(ctx, o)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, w.close()) }()
	var rows [][]string
	var wrong []error
	for _, n := range []int{1, 3, 10, 50, 120} {
		if err := w.grow(ctx, n, 0); err != nil {
			return err
		}
		name := fmt.Sprintf("count-%d", n)
		row := []string{fmt.Sprint(n)}
		for _, step := range []struct {
			what string
			want int
			do   func() error
		}{
			{"create", 2*n + 3, func() error { _, err := w.create(ctx, name, 0, n); return err }},
			{"change", n + 1, func() error { return w.change(ctx, name, n) }},
			{"delete", n + 2, func() error { return w.remove(ctx, name) }},
		} {
			w.eyes.forget(true)
			if err := step.do(); err != nil {
				return err
			}
			got, err := w.eyes.revisionsUntilQuiet(ctx)
			if err != nil {
				return err
			}
			if got != step.want {
				wrong = append(wrong, fmt.Errorf("a %s over %d members cost %d revisions, not %d", step.what, n, got, step.want))
			}
			row = append(row, fmt.Sprint(got))
		}
		rows = append(rows, row)
	}
	out.heading("Revisions")
	out.table([]string{"members", "create (2n+3)", "change (n+1)", "delete (n+2)"}, rows)
	return errors.Join(wrong...)
}

// change asks for another amount of memory everywhere.
func (s *server) change(ctx context.Context, name string, n int) error {
	var service map[string]any
	if err := json.Unmarshal(definition(name, 0, n), &service); err != nil {
		return err
	}
	service["memory"] = "1Gi"
	body, err := json.Marshal(service)
	if err != nil {
		return err
	}
	_, err = s.call(ctx, http.MethodPut, "/system/services?wait=2m", body, http.StatusNoContent)
	return err
}
