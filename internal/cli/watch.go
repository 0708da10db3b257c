package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"

	"sigs.k8s.io/yaml"

	"github.com/oscarfed/oscarfed/api/client"
	v1 "github.com/oscarfed/oscarfed/api/v1"
	"github.com/oscarfed/oscarfed/internal/cli/output"
)

// watch prints a service's view of its federation at each change, until the user interrupts it or
// the service is gone.
func (c *getReplicasCmd) watch(ctx context.Context, a *app, api *client.Client) error {
	rows := newRowLog(a.stdout)
	phase := ""
	err := api.WatchReplicas(ctx, c.Service, client.WatchOptions{
		ClusterID: c.Cluster,
		Broken:    func(err error) { a.sayf("the connection is lost, trying again: %v", err) },
	}, func(view *v1.Replicas, _ int64) error {
		if a.form != output.FormTable {
			return encodeNext(a.stdout, a.form, view)
		}
		if now := fmt.Sprintf("%s, generation %d", output.Words(view.Phase), view.Generation); now != phase {
			a.sayf("%s: %s", view.GroupID, now)
			phase = now
		}
		return rows.show(view)
	})
	if ctx.Err() != nil {
		return nil //nolint:nilerr // that is how a watch ends
	}
	return err
}

// encodeNext writes one of many values: as JSON on a line of its own, as YAML in a
// document of its own.
func encodeNext(w io.Writer, f output.Form, v any) error {
	if f == output.FormYAML {
		data, err := yaml.Marshal(v)
		if err == nil {
			_, err = fmt.Fprintf(w, "---\n%s", data)
		}
		return err
	}
	return json.NewEncoder(w).Encode(v)
}

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
