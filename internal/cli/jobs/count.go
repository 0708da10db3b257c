package jobs

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"

	"github.com/oscarfed/oscarfed/api/client"
	v1 "github.com/oscarfed/oscarfed/api/v1"
	"github.com/oscarfed/oscarfed/internal/cli/exit"
	"github.com/oscarfed/oscarfed/internal/cli/output"
)

// Describe adds how many jobs of a federation there are, by state. A control
// plane that is older than jobs has none.
func Describe(ctx context.Context, w io.Writer, style output.Style, api *client.Client, f *v1.Federation) error {
	page, err := api.Jobs(ctx, client.JobQuery{GroupID: f.UID, Limit: 1, Counts: true})
	if err != nil && exit.StatusOf(err) == exit.NotFound {
		return nil
	}
	if err != nil {
		return err
	}
	if len(page.Counts) == 0 {
		return nil
	}
	if _, err := fmt.Fprintln(w, "\nJobs"); err != nil {
		return err
	}
	t := &output.Table{}
	for _, state := range statesInOrder(page.Counts) {
		t.Row(state, strconv.Itoa(page.Counts[state]))
	}
	return t.Write(w, style)
}

// statesInOrder lists states as a job passes through them, then those that are not known.
func statesInOrder(states map[string]int) []string {
	order := v1.JobStates()
	rank := func(state string) int {
		if i := slices.Index(order, state); i >= 0 {
			return i
		}
		return len(order)
	}
	return slices.SortedFunc(maps.Keys(states), func(a, b string) int { return cmp.Or(cmp.Compare(rank(a), rank(b)), cmp.Compare(a, b)) })
}
