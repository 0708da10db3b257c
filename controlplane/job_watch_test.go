package controlplane_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/oscarfed/oscarfed/controlplane/jobs"
	"github.com/oscarfed/oscarfed/test/await"
)

// TestABrokenWatchOfJobsMissesNone: many jobs change in one revision, and a watch that breaks between two of them
// goes on with the second.
func TestABrokenWatchOfJobsMissesNone(t *testing.T) {
	await.InVirtualTime(t, func(t *testing.T) {
		w := newJobWorld(t)
		since := w.revision()
		var accepted errgroup.Group
		for range 30 {
			accepted.Go(func() error {
				_, err := w.Jobs.Submit(t.Context(), admin, jobs.Request{Service: "grayifyr0", Event: []byte(secretEvent)})
				return err
			})
		}
		if err := accepted.Wait(); err != nil {
			t.Fatal(err)
		}
		broken := errors.New("the stream broke")
		told, together := map[string]bool{}, map[int64]int{}
		for most := 1; len(told) < 30; most++ {
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			n := 0
			err := w.Jobs.WatchAll(ctx, admin, jobs.Query{}, since, func(j *jobs.Job, seen int64) error {
				told[j.ID] = true
				together[j.StreamRevision]++
				if seen < since {
					t.Errorf("after %d it goes back to %d", since, seen)
				}
				since = seen
				if n++; n == most || len(told) == 30 {
					return broken
				}
				return nil
			})
			cancel()
			if !errors.Is(err, broken) {
				t.Fatalf("%d of 30 jobs are told: %v", len(told), err)
			}
		}
		if len(together) == 30 {
			t.Error("no two jobs have one revision: that shows nothing")
		}
	})
}
