package clusters

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/oscarfed/oscarfed/api/client"
	v1 "github.com/oscarfed/oscarfed/api/v1"
	"github.com/oscarfed/oscarfed/internal/cli/command"
	"github.com/oscarfed/oscarfed/internal/cli/exit"
	"github.com/oscarfed/oscarfed/internal/cli/output"
)

type eventsCmd struct {
	Federation string
	Cluster    string
	Kinds      []string
	Since      string
	Limit      int
	Watch      bool
}

// Events is `oscarfed events`.
func Events(a *command.App) *cobra.Command {
	var c eventsCmd
	cmd := &cobra.Command{
		Use:   "events [FEDERATION]",
		Short: "What has happened lately, and what to do about it",
		Long: "What has happened lately to federations, replicas, clusters and jobs, and what to do about it; the newest last.\n" +
			"FEDERATION is the uid or the group of one federation.",
		Example: "  oscarfed events --since 1h\n" +
			"  oscarfed events grayify -w",
		RunE: func(cmd *cobra.Command, args []string) error {
			c.Federation = command.Argument(args, 0)
			return c.Run(cmd.Context(), a)
		},
	}
	f := command.FlagsOf(cmd)
	f.Text(&c.Cluster, "cluster", "", "", "ID", "Only about this cluster.")
	f.List(&c.Kinds, "kind", "KIND", "Only about this kind: "+strings.Join(v1.AboutKinds(), ", ")+".")
	f.Text(&c.Since, "since", "", "", "TIME", "Only what happened then or later: RFC 3339, or how long ago, such as 2h30m.")
	f.Limit(&c.Limit, "How many at most, up to 1000.")
	f.BoolVarP(&c.Watch, "watch", "w", false, "Go on and show each event, until interrupted.")
	return cmd
}

func (c *eventsCmd) Run(ctx context.Context, a *command.App) error {
	if c.Watch && a.Form != output.FormTable {
		return exit.Usagef("-w prints a table; leave -o out")
	}
	since, err := command.TimeOf("since", c.Since, a.Now())
	if err != nil {
		return err
	}
	api, err := a.Dial()
	if err != nil {
		return err
	}
	q := c.query()
	q.Since = since
	page, err := api.Events(ctx, q)
	if err != nil {
		return err
	}
	if known := page.Since.Time; len(page.Events) == 0 && !known.IsZero() && since.Before(known) {
		sayUnknown(a, page)
	}
	if err := a.Unbounded().Print(page, func() *output.Table { return eventTable(page.Events) }); err != nil {
		return err
	}
	a.SayLimited(len(page.Events), c.Limit)
	if !c.Watch {
		return nil
	}
	return c.watch(ctx, a, api, page)
}

// clocksApart is how far apart the clocks of two control planes may be: each tells its own time of what has happened.
const clocksApart = 2 * time.Hour

// shownEvents is how far events were shown.
type shownEvents struct {
	epoch    string
	revision int64
	// last is when the last one happened; zero for none.
	last time.Time
}

func (s *shownEvents) add(epoch string, revision int64, events ...v1.SystemEvent) {
	if epoch != s.epoch {
		s.revision = 0
	}
	s.epoch, s.revision = epoch, max(s.revision, revision)
	for _, e := range events {
		if e.At.After(s.last) { // of several the newest is the first
			s.last = e.At.Time
		}
	}
}

// watch shows what happens after a page, until the person interrupts it. Times are those of the control plane alone:
// the clock of this machine may be ahead of its.
func (c *eventsCmd) watch(ctx context.Context, a *command.App, api *client.Client, page *v1.SystemEvents) error {
	var shown shownEvents
	shown.add(page.Epoch, page.Revision, page.Events...)
	show := func(events ...v1.SystemEvent) error {
		return eventTable(events).WithoutHead().Write(a.Stdout, a.Unbounded().Style())
	}
	opts := client.WatchAllOptions{
		Kinds: []string{v1.EventHappened}, Query: client.ListQuery{ClusterID: c.Cluster}, Federation: c.Federation, Since: page.Revision, Epoch: page.Epoch,
	}
	return command.WatchAll(ctx, a, api, opts, func(e *v1.Event) error {
		if e.Event == nil || len(c.Kinds) > 0 && !slices.Contains(c.Kinds, e.Event.Kind) {
			return nil
		}
		shown.add(shown.epoch, e.Event.Revision, *e.Event)
		return show(*e.Event)
	}, func(opts *client.WatchAllOptions) error {
		from, q := cmp.Or(shown.last, page.Since.Time), c.query()
		if !from.IsZero() {
			q.Since = from.Add(-clocksApart)
		}
		now, err := api.AllEvents(ctx, q)
		if err != nil {
			return err
		}
		switch {
		case !now.Since.After(from):
		case shown.last.IsZero():
			sayUnknown(a, now)
		default:
			a.Sayf("what happened between %s and %s is not known", from.UTC().Format(time.RFC3339), now.Since.UTC().Format(time.RFC3339))
		}
		opts.Since, opts.Epoch = now.Revision, now.Epoch
		news := slices.DeleteFunc(now.Events, func(e v1.SystemEvent) bool {
			if now.Epoch != shown.epoch { // its revisions are others
				return !e.At.After(from)
			}
			return e.Revision <= shown.revision
		})
		shown.add(now.Epoch, now.Revision, news...)
		return show(news...)
	})
}

// query is what is asked for, at any time.
func (c *eventsCmd) query() client.EventQuery {
	return client.EventQuery{Federation: c.Federation, ClusterID: c.Cluster, Kinds: c.Kinds, Limit: c.Limit}
}

func sayUnknown(a *command.App, page *v1.SystemEvents) {
	a.Sayf("what happened before %s, when this control plane began to watch, is not known", page.Since.UTC().Format(time.RFC3339))
}

// eventTable has events that are given the newest first, the newest last.
func eventTable(events []v1.SystemEvent) *output.Table {
	t := output.NewTable("TIME", "SEVERITY", "REASON", "WHERE", "MESSAGE")
	for i := range slices.Backward(events) {
		e := &events[i]
		message := e.Message
		if e.Hint != "" {
			message += "; " + e.Hint
		}
		t.Row(e.At.UTC().Format(time.RFC3339), e.Severity, e.Reason, whereOf(e), message)
	}
	return t
}

// whereOf is what an event is about.
func whereOf(e *v1.SystemEvent) string {
	where := e.ClusterID
	if e.ServiceName != "" {
		where = fmt.Sprintf("%s/%s", e.ClusterID, e.ServiceName)
	}
	switch e.Kind {
	case v1.AboutFederation:
		return e.GroupID
	case v1.AboutJob:
		return strings.TrimSpace("job " + e.Job + " " + where)
	}
	return cmp.Or(where, e.Kind)
}
