package command

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/oscarfed/oscarfed/api/client"
	v1 "github.com/oscarfed/oscarfed/api/v1"
	"github.com/oscarfed/oscarfed/internal/cli/exit"
	"github.com/oscarfed/oscarfed/internal/cli/output"
)

// beginAgain is the pause before a watch whose place in the stream is lost begins anew.
const beginAgain = time.Second

// listLog writes a row for each change of a list.
type listLog struct {
	rows *output.RowLog
	head []string
	// listed are the rows of the list that the log begins with, shown those of things by the names that
	// events have for them; both without what changes by itself.
	listed map[string]bool
	shown  map[string]string
}

// watchList prints a list, and then a row for each thing that is new or has changed.
func watchList[T any](ctx context.Context, a *App, api *client.Client, l *Listing, kind Kind[T], list []T) error {
	if a.Form != output.FormTable {
		return exit.Usagef("-w prints a table; leave -o out")
	}
	t := kind.Table(list)
	log := &listLog{rows: output.NewRowLog(a.Stdout, a.Style()), head: t.Rows[0], listed: map[string]bool{}, shown: map[string]string{}}
	log.rows.Fit(t.Rows...)
	for i, row := range t.Rows {
		if i == 0 && a.NoHeaders {
			continue
		}
		log.listed[log.lasting(row)] = true
		if err := log.rows.Write(row); err != nil {
			return err
		}
	}
	opts := client.WatchAllOptions{Kinds: []string{kind.Event}, Query: kind.Query}
	return WatchAll(ctx, a, api, opts, func(e *v1.Event) error { return logEvent(ctx, a, api, l, kind, log, e) }, nil)
}

// WatchAll follows all changes until the user interrupts it. again is called when the place in the stream is lost,
// and may change the options; without it all is told once more.
func WatchAll(ctx context.Context, a *App, api *client.Client, opts client.WatchAllOptions, fn func(*v1.Event) error, again func(*client.WatchAllOptions) error) error {
	opts.Broken = func(err error) { a.Sayf("the connection is lost, trying again: %v", err) }
	for {
		err := api.WatchAll(ctx, opts, fn)
		switch {
		case ctx.Err() != nil:
			return nil //nolint:nilerr // that is how a watch ends
		case !client.IsExpired(err):
			return err
		}
		select {
		case <-ctx.Done():
		case <-time.After(beginAgain):
		}
		if again == nil {
			continue
		}
		if err := again(&opts); err != nil && ctx.Err() == nil {
			return err
		}
	}
}

// logEvent writes the row of a thing that has changed.
func logEvent[T any](ctx context.Context, a *App, api *client.Client, l *Listing, kind Kind[T], log *listLog, e *v1.Event) error {
	if e.Deleted {
		if was, known := log.shown[e.Name]; known {
			delete(log.shown, e.Name)
			delete(log.listed, was)
			name, _, _ := strings.Cut(was, "\t")
			a.Sayf("%s is gone", name)
		}
		return nil
	}
	item, err := kind.Of(ctx, api, e)
	if answer, ok := errors.AsType[*client.Error](err); ok && answer.Code() == v1.CodeNotFound {
		return nil // an event of its end follows
	}
	if err != nil {
		return err
	}
	one := []T{item}
	entries, err := matching(l, one, kind.Table(one))
	if err != nil || len(entries) == 0 {
		return err
	}
	return log.show(e.Name, entries[0].row)
}

// EventOf is the thing that an event has.
func EventOf[T any](thing *T) (T, error) {
	if thing == nil {
		var none T
		return none, errors.New("the control plane has sent an event that is about nothing")
	}
	return *thing, nil
}

// show writes a row, unless it says what was written of this thing last.
func (l *listLog) show(name string, row []string) error {
	text := l.lasting(row)
	was, known := l.shown[name]
	l.shown[name] = text
	if was == text || !known && l.listed[text] {
		return nil
	}
	return l.rows.Write(row)
}

// lasting is a row without the columns that change by themselves.
func (l *listLog) lasting(row []string) string {
	var cells []string
	for i, cell := range row {
		if i >= len(l.head) || !slices.Contains([]string{"AGE", "LAST SEEN"}, l.head[i]) {
			cells = append(cells, cell)
		}
	}
	return strings.Join(cells, "\t")
}
