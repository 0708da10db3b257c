package controlplane

import (
	"time"

	"github.com/oscarfed/oscarfed/internal/clock"
	"github.com/oscarfed/oscarfed/store/record"
)

// deadlinesOf enters when this instance first saw a federation's deadlines into its
// situation; one without any is forgotten.
func deadlinesOf(seen *clock.Sightings, sit *situation) {
	uid := sit.fed.UID
	if d := sit.fed.Deadline; d != nil {
		sit.since = seen.Since(uid, d.String(), sit.now)
	} else {
		seen.Forget(uid)
	}
	if c := sit.fed.Change; c != nil {
		sit.changeSince = seen.Since(uid+"/change", c.Deadline.String(), sit.now)
	} else {
		seen.Forget(uid + "/change")
	}
}

// due is when a deadline passes by the clock of this instance: as long after it was
// first seen here as it was set into the future by the clock that wrote it.
func due(written, deadline record.Time, since time.Time) time.Time {
	if since.IsZero() || written.IsZero() {
		return deadline.Time
	}
	return since.Add(deadline.Sub(written.Time))
}
