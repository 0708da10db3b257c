package command

import (
	"cmp"
	"context"
	"slices"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/labels"

	"github.com/oscarfed/oscarfed/api/client"
	v1 "github.com/oscarfed/oscarfed/api/v1"
	"github.com/oscarfed/oscarfed/internal/cli/exit"
	"github.com/oscarfed/oscarfed/internal/cli/output"
	"github.com/oscarfed/oscarfed/internal/suggest"
)

// Listing are the flags of the commands that print a list.
type Listing struct {
	Names    []string
	selector string
	sortBy   string
	watch    bool
}

// Flags adds them.
func (l *Listing) Flags(f Flags) {
	f.Text(&l.selector, "selector", "l", "", "LABELS", "Only those with these labels, as in site=upv,tier!=edge.")
	f.Text(&l.sortBy, "sort-by", "", "", "WHAT", "Sort by a column, or by a JSONPath such as .cluster_id.")
	f.BoolVarP(&l.watch, "watch", "w", false, "Go on and show each change, until interrupted.")
}

// Watching says whether each change is to be shown.
func (l *Listing) Watching() bool { return l.watch }

// Arranged says whether things are selected or sorted.
func (l *Listing) Arranged() bool { return l.selector != "" || l.sortBy != "" }

// entry is one thing of a list, with what it is chosen and sorted by.
type entry[T any] struct {
	item  T
	name  string
	row   []string
	plain any
}

// Kind is a kind of things that are listed.
type Kind[T any] struct {
	// Fetch lists them.
	Fetch func(context.Context, *client.Client) ([]T, error)
	Table func([]T) *output.Table
	// Query chooses among them in a watch, as Fetch has.
	Query client.ListQuery
	// Event is the kind's word in a watch, Name the name that its events have for a thing, and Of the thing that an
	// event is about.
	Event string
	Name  func(T) string
	Of    func(context.Context, *client.Client, *v1.Event) (T, error)
}

// PrintList prints those of a list that were asked for, once or at each change.
func PrintList[T any](ctx context.Context, a *App, l *Listing, kind Kind[T]) error {
	api, err := a.Dial()
	if err != nil {
		return err
	}
	all, err := kind.Fetch(ctx, api)
	if err != nil {
		return err
	}
	list, err := chosen(l, all, kind.Table)
	if err != nil {
		return err
	}
	if l.watch {
		return watchList(ctx, a, api, l, kind, list)
	}
	return a.Print(list, func() *output.Table { return kind.Table(list) })
}

// chosen are the things that were named or selected, in the order that was asked for.
func chosen[T any](l *Listing, list []T, table func([]T) *output.Table) ([]T, error) {
	if len(l.Names) == 0 && l.selector == "" && l.sortBy == "" {
		return list, nil
	}
	t := table(list)
	if err := l.checkNames(t.Names()); err != nil {
		return nil, err
	}
	entries, err := matching(l, list, t)
	if err != nil {
		return nil, err
	}
	if err := sortEntries(entries, l.sortBy, t.Rows[0]); err != nil {
		return nil, err
	}
	out := make([]T, 0, len(entries))
	for _, e := range entries {
		out = append(out, e.item)
	}
	return out, nil
}

// matching are the things of a table that were named or selected.
func matching[T any](l *Listing, list []T, t *output.Table) (entries []entry[T], err error) {
	selector, err := labels.Parse(l.selector)
	if err != nil {
		return nil, exit.Usagef("--selector: %w", err)
	}
	names := t.Names()
	for i, item := range list {
		plain, err := output.Plain(item)
		if err != nil {
			return nil, err
		}
		if (len(l.Names) == 0 || slices.Contains(l.Names, names[i])) && selector.Matches(labelsIn(plain)) {
			entries = append(entries, entry[T]{item, names[i], t.Rows[i+1], plain})
		}
	}
	return entries, nil
}

// checkNames refuses a name that the list does not have.
func (l *Listing) checkNames(known []string) error {
	for _, name := range l.Names {
		if !slices.Contains(known, name) {
			return exit.Errorf(exit.NotFound, "there is no %q%s", name, suggest.Words(name, known))
		}
	}
	return nil
}

// labelsIn are the labels of a thing, as its JSON has them.
func labelsIn(plain any) labels.Set {
	set := labels.Set{}
	object, _ := plain.(map[string]any)
	all, _ := object["labels"].(map[string]any)
	for key, value := range all {
		if text, ok := value.(string); ok {
			set[key] = text
		}
	}
	return set
}

// sortEntries sorts by a column or a JSONPath; nothing keeps the order.
func sortEntries[T any](entries []entry[T], by string, columns []string) error {
	if by == "" {
		return nil
	}
	keys := make([]string, len(entries))
	column := slices.IndexFunc(columns, func(c string) bool { return strings.EqualFold(c, by) })
	if column < 0 && !strings.ContainsAny(by, ".{") {
		return exit.Usagef("--sort-by %s is no column%s; a JSONPath begins with a dot", by, suggest.Words(by, columns))
	}
	order := make([]int, len(entries))
	for i, e := range entries {
		order[i] = i
		if column >= 0 {
			keys[i] = e.row[column]
			continue
		}
		text, err := output.Path(by, e.plain)
		if err != nil {
			return exit.Usagef("--sort-by: %w", err)
		}
		keys[i] = text
	}
	slices.SortStableFunc(order, func(i, j int) int { return compareKeys(keys[i], keys[j]) })
	sorted := make([]entry[T], 0, len(entries))
	for _, i := range order {
		sorted = append(sorted, entries[i])
	}
	copy(entries, sorted)
	return nil
}

// compareKeys compares numbers and lengths of time as what they are.
func compareKeys(a, b string) int {
	x, isNumber := numberOf(a)
	y, isToo := numberOf(b)
	if isNumber && isToo {
		return cmp.Compare(x, y)
	}
	return strings.Compare(a, b)
}

func numberOf(text string) (float64, bool) {
	if n, err := strconv.ParseFloat(text, 64); err == nil {
		return n, true
	}
	d, err := time.ParseDuration(text)
	return d.Seconds(), err == nil
}
