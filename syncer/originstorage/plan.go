package originstorage

import (
	"errors"
	"fmt"
	"time"

	"github.com/oscarfed/oscarfed/api/oscar"
	"github.com/oscarfed/oscarfed/store/record"
	"github.com/oscarfed/oscarfed/syncer/definition"
	"github.com/oscarfed/oscarfed/syncer/origin"
	"github.com/oscarfed/oscarfed/syncer/ownertoken"
)

// Decisions about the storage of an origin. They are pure.

// ByOwner says whether a job is posted with an access token of the service's owner instead
// of the service's own token. OSCAR names the Secret with the origin's keys after a user:
// that of an event of a bucket, or the bearer; without either it refuses the job.
func ByOwner(at *definition.Storage, d *record.Desired, event []byte) bool {
	return at != nil && definition.UsersService(d) && oscar.EventPrincipal(event) == ""
}

// keysUse is what becomes of keys that are kept.
type keysUse int

const (
	// keysGood: they are used.
	keysGood keysUse = iota
	// keysStale: they are used, and others are got beside: a stale one is better than
	// none.
	keysStale
	// keysMissing: there are none, and others are waited for.
	keysMissing
	// keysFailed: there are none, and it was just tried.
	keysFailed
)

const (
	// keysAge is how old keys are that are got anew.
	keysAge = time.Hour
	// keysPause lies between two tries to get keys.
	keysPause = 5 * time.Second
)

// useKeys decides about what is kept: got is zero without keys, tried is when the last try
// ended, and doubted that something has failed that they may be the cause of.
func useKeys(got, tried time.Time, doubted bool, now time.Time) keysUse {
	rested := now.Sub(tried) >= keysPause
	switch {
	case got.IsZero() && rested:
		return keysMissing
	case got.IsZero():
		return keysFailed
	case rested && (doubted || now.Sub(got) >= keysAge):
		return keysStale
	}
	return keysGood
}

// verdict is what is said of a worker's storage: keys is why there are none, and alive why
// the MinIO is of no use. The texts are the same as long as the causes are.
func verdict(keys, alive error) record.Inputs {
	switch {
	case keys != nil:
		return unreadable(keys)
	case alive != nil:
		return unreadable(alive)
	}
	return record.Inputs{Readable: true}
}

func unreadable(err error) record.Inputs {
	out := record.Inputs{Reason: record.ReasonInputsUnreadable, Message: "the syncer cannot tell: see its log"}
	if none, ok := errors.AsType[*ownertoken.NoTokenError](err); ok {
		out.Reason, out.Message = none.Reason, fmt.Sprintf("the owner's keys of the origin's MinIO are got with his access token: %s", none.Message)
	} else if e, ok := errors.AsType[*origin.Error](err); ok {
		out.Message = e.Message
	}
	return out
}

// lookPause is when to look again; spread is between 0 and 1.
func lookPause(period time.Duration, readable bool, spread float64) time.Duration {
	if !readable {
		period /= 5
	}
	return time.Duration(float64(period) * (0.8 + 0.4*spread))
}
