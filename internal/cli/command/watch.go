package command

import (
	"context"
	"errors"
	"maps"
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
	app  *App
	rows *output.RowLog
	head []string
	// shown has the row of each thing that is shown, without what changes by itself, by the name that events have for it.
	shown map[string]string
}

// watchList prints a list, and then a row for each thing that is new or has changed.
func watchList[T any](ctx context.Context, a *App, api *client.Client, l *Listing, kind Kind[T], list []T) error {
	if a.Form != output.FormTable {
		return exit.Usagef("-w prints a table; leave -o out")
	}
	t := kind.Table(list)
	log := &listLog{app: a, rows: output.NewRowLog(a.Stdout, a.Style()), head: t.Rows[0], shown: map[string]string{}}
	log.rows.Fit(t.Rows...)
	for i, row := range t.Rows {
		if i > 0 {
			log.shown[kind.Name(list[i-1])] = log.lasting(row)
		} else if a.NoHeaders {
			continue
		}
		if err := log.rows.Write(row); err != nil {
			return err
		}
	}
	opts := client.WatchAllOptions{Kinds: []string{kind.Event}, Query: kind.Query, Whole: func(there map[client.EventKey]bool) error {
		for _, name := range slices.Sorted(maps.Keys(log.shown)) {
			if !there[client.EventKey{Kind: kind.Event, Name: name}] { // its end was missed
				log.gone(name)
			}
		}
		return nil
	}}
	return WatchAll(ctx, a, api, opts, func(e *v1.Event) error { return logEvent(ctx, api, l, kind, log, e) }, nil)
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
		if opts.Again = true; again == nil {
			continue
		}
		// While the API does not answer, the place is still lost: it is called once more.
		if err := again(&opts); err != nil && ctx.Err() == nil && !client.Transient(err) {
			return err
		}
	}
}

// logEvent writes the row of a thing that has changed.
func logEvent[T any](ctx context.Context, api *client.Client, l *Listing, kind Kind[T], log *listLog, e *v1.Event) error {
	if e.Deleted {
		log.gone(e.Name)
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
	if l.shown[name] == text {
		return nil
	}
	l.shown[name] = text
	return l.rows.Write(row)
}

// gone says of a thing that is shown that it is gone.
func (l *listLog) gone(name string) {
	if was, known := l.shown[name]; known {
		delete(l.shown, name)
		name, _, _ := strings.Cut(was, "\t")
		l.app.Sayf("%s is gone", name)
	}
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
