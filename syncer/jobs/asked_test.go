package jobs

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/oscarfed/oscarfed/internal/worker"
	"github.com/oscarfed/oscarfed/syncer/session"
)

// An assignment may go between the decision to delete or to hold its Job and that call, which then ended the process.
func TestAnAssignmentThatHasGoneBeforeItsCall(t *testing.T) {
	t.Parallel()
	for name, call := range map[string]func(*Jobs, context.Context, *attempt){"delete": (*Jobs).deleteJob, "remove": (*Jobs).remove, "hold": (*Jobs).hold} {
		j := &Jobs{
			session: &session.Session{Cluster: &session.Cluster{Now: time.Now, Log: slog.New(slog.DiscardHandler)}},
			due:     worker.New(worker.Config[string]{HandleAll: func(context.Context, []string) {}, Most: 1}),
		}
		a := &attempt{key: "job.1", memory: memory{busy: true}}
		call(j, t.Context(), a)
		if a.memory.busy {
			t.Errorf("%s: it is still at work", name)
		}
	}
}
