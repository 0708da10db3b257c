package jobs

import (
	"fmt"
	"time"

	"github.com/oscarfed/oscarfed/controlplane/view"
	"github.com/oscarfed/oscarfed/store/record"
)

// postedWhat is what came of a POST to an endpoint.
type postedWhat struct {
	// status is what it answered; 0 when it did not.
	status int
	// unsent says that nothing can have reached it.
	unsent  bool
	message string
}

// decidePosted is pure: what becomes of a job that was handed to an endpoint. An answer
// other than 2xx is a refusal: the endpoint says so, and is asked again, or another one.
//
//	2xx ────────────────────► succeeded: an endpoint tells no more
//	another answer, or never
//	sent ───────────────────► queued, after a pause; parked after the last one
//	no answer ──────────────► uncertain
func decidePosted(s situation, what postedWhat) decision {
	started := s.job.Posting.At
	switch {
	case what.status >= 200 && what.status < 300:
		d := s.end(record.JobSucceeded, "", fmt.Sprintf("the endpoint answered %d", what.status))
		d.next.StartedAt = &started
		return d
	case what.status != 0 || what.unsent:
		if s.job.Cancel != "" || s.disbanded {
			return s.end(record.JobCancelled, "", "")
		}
		next := s.requeued(record.Attempt{State: record.JobRefused, Reason: record.JobEndpointRefused, Status: what.status, Message: view.Shorten(what.message, maxMessage)})
		next.Tries++
		next.Reason, next.Message = record.JobEndpointRefused, view.Shorten(what.message, maxMessage)
		return retry(next, s.now)
	}
	return uncertain(s, what.message)
}

// uncertain says that the endpoint was asked, or may have been, with an unknown outcome.
func uncertain(s situation, why string) decision {
	next := s.job
	next.State, next.Posting, next.ChangedAt = record.JobUncertain, nil, record.At(s.now)
	next.Reason, next.Message = record.JobNoAnswer, view.Shorten(why, maxMessage)
	return decision{name: "uncertain", next: next}
}

// postingLost is after what time of this instance's own observation another one, which
// has begun to deliver a job, is not alive any more: three times what a delivery takes.
const postingLost = 3 * postTimeout

// postTimeout is how long an endpoint may take to answer.
const postTimeout = 20 * time.Second
