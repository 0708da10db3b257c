package decide

import (
	"github.com/oscarfed/oscarfed/controlplane/view"
	"github.com/oscarfed/oscarfed/internal/clock"
)

// DeadlinesOf sets in a situation when this instance first saw the federation's deadlines, and
// forgets those of a federation without any.
func DeadlinesOf(seen *clock.FirstSeen, sit *view.Situation) {
	uid := sit.Fed.UID
	if d := sit.Fed.Deadline; d != nil {
		sit.Since = seen.Since(uid, d.String(), sit.Now)
	} else {
		seen.Forget(uid)
	}
	if c := sit.Fed.Change; c != nil {
		sit.ChangeSince = seen.Since(uid+"/change", c.Deadline.String(), sit.Now)
	} else {
		seen.Forget(uid + "/change")
	}
}
