package versions_test

import (
	"slices"
	"strings"

	"github.com/oscarfed/oscarfed/store"
	"github.com/oscarfed/oscarfed/store/record"
	"github.com/oscarfed/oscarfed/test/await"
)

// byBoth are the kinds of records that a federation of the administrator has without Kubernetes. The others,
// of refresh tokens, offers, measured capacity, joins and restores, what is written every few minutes, and what a new
// program does not change (observed/cluster), have no part here.
var byBoth = []string{
	"audit", "clusters", "decisions", "deleted", "events", "federations", "history", "instances", "jobs", "names", "requests", "reserved", "secrets",
	"desired/cluster", "desired/events", "desired/jobs", "desired/services", "desired/specs",
	"observed/jobs", "observed/services", "session",
}

// kindOf is what a key is called after, without what differs from record to record.
func kindOf(key string) string {
	parts := strings.Split(strings.TrimPrefix(key, record.Root), "/")
	switch {
	case parts[0] != "c":
		return parts[0]
	case parts[2] == "session":
		return parts[2]
	}
	return parts[2] + "/" + parts[3]
}

func (r *releases) revision() int64 {
	r.t.Helper()
	view, err := r.store.Read(r.t.Context(), record.MetaKey)
	if err != nil {
		r.t.Fatal(err)
	}
	return view.Revision
}

// registers has a control plane write what concerns clusters.
func (r *releases) registers(program string) {
	r.t.Helper()
	for _, state := range []string{"cordoned", "active"} {
		if _, err := r.API(program).SetClusterState(r.t.Context(), clusters[0], state); err != nil {
			r.t.Fatal(err)
		}
	}
}

// wrote checks that today's programs have written one record of each kind, at least, since a revision.
func (r *releases) wrote(since int64) {
	r.t.Helper()
	var missing []string
	r.t.Cleanup(func() {
		if len(missing) > 0 {
			r.t.Logf("today's programs have not written %v", missing)
		}
	})
	await.Until(r.t, "today's programs have written each kind of record", func() bool {
		seen := map[string]bool{}
		err := r.store.History(r.t.Context(), record.Root, since+1, r.revision(), func(_ int64, events []store.Event) error {
			for _, ev := range events {
				if !ev.Deleted {
					seen[kindOf(ev.Key)] = true
				}
			}
			return nil
		})
		if err != nil {
			r.t.Fatal(err)
		}
		missing = slices.DeleteFunc(slices.Clone(byBoth), func(kind string) bool { return seen[kind] })
		return len(missing) == 0
	})
}

// readsAll checks that no program has met a record that it cannot read.
func (r *releases) readsAll(programs ...string) {
	r.t.Helper()
	for _, program := range programs {
		for line := range strings.Lines(r.Child(program).Log().String()) {
			if strings.Contains(line, `"level":"ERROR"`) && (strings.Contains(line, "cannot be read") || strings.Contains(line, "cannot be opened")) {
				r.t.Errorf("%s, which went back: %s", program, line)
			}
		}
	}
}
