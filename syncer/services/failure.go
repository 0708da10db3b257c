package services

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/oscarfed/oscarfed/store/record"
	"github.com/oscarfed/oscarfed/syncer/answers"
	"github.com/oscarfed/oscarfed/syncer/definition"
	"github.com/oscarfed/oscarfed/syncer/manager"
)

// noteFailure keeps why a write failed; whether it did is found by looking again.
// An unanswered POST is no failure yet. What is no *manager.APIError is
// returned.
func (s *Services) noteFailure(v *observation, step act, reason record.Reason, err error) error {
	if err == nil {
		// Until the next look shows otherwise, it had no effect: so an OSCAR that
		// says yes and does nothing is not asked for ever.
		s.failed(v.name, step, failure{reason: reason, message: noEffect(v, step)})
		return nil
	}
	api, ok := errors.AsType[*manager.APIError](err)
	if !ok {
		return err
	}
	if api.Unanswered() && (step == create || step == sweep) {
		return nil
	}
	f := failure{reason: reason, status: api.Status, message: manager.Scrub(api.Body, v.secrets()...), definite: api.Definite()}
	switch {
	case (step == create || step == update || step == sweep) && v.token.needed && manager.NotAdmitted(err) && (manager.Refused(err) || f.message == ""):
		no := notAllowed(s.session.ID)
		f.reason, f.message = no.reason, no.message
	case manager.Refused(err):
		no := refusedCredential()
		f.reason, f.message = no.reason, no.message
	case api.Status == 0:
		f.reason, f.message = record.ReasonOscarUnreachable, "the cluster's OSCAR does not answer; it is tried again"
	case f.message == "":
		f.message = fmt.Sprintf("%s answered %d", step.operation(), api.Status)
	}
	inTime := v.desired.Deadline != nil && s.session.Now().Before(s.due(v.name, v.desired))
	s.failed(v.name, step, f)
	if inTime && f.reason == record.ReasonOscarUnreachable {
		s.process.writes.change(v.name, func(n *recent) { n.final = false }) // there is time left for it to come back
	}
	return nil
}

// failed notes that a step did not have its effect, and how long its next try is to wait.
func (s *Services) failed(name string, step act, f failure) {
	s.process.writes.change(name, func(n *recent) {
		n.failed(step, f, s.session.Now(), s.cfg.RetryPause, s.cfg.Resync)
	})
}

// noEffect says what is wrong when a step was answered with success and the
// next look shows no change.
func noEffect(v *observation, step act) string {
	switch step {
	case create:
		return "OSCAR says that it made the service, and does not list it; look into its log"
	case update:
		what := "the service"
		if v.local.differs != "" {
			what = v.local.differs
		}
		return fmt.Sprintf("OSCAR says that it changed the service, and %s is still not as asked; compare the definition with what OSCAR shows", what)
	case start:
		return "OSCAR says that it started the service, and it is still stopped; look into its log"
	case stop:
		return "OSCAR says that it stopped the service, and it still runs; look into its log"
	case release:
		return "OSCAR says that it changed the service, and it still carries our marks; look into its log"
	case register:
		return "OSCAR says that it changed the service, and it is as before, so its webhook may be missing; look into its log"
	case detach:
		return "OSCAR says that it changed the service, and it still names its buckets; it is not deleted, since OSCAR would delete them with it"
	}
	return "OSCAR says that it deleted the service, and still lists it; look into its log"
}

// refuseBucket notes that a step is refused for a bucket that is not ours.
func (s *Services) refuseBucket(ctx context.Context, v *observation, step act, already ...string) (bool, error) {
	bucket, reason, err := s.foreignBucket(ctx, v, already)
	if bucket == "" || err != nil {
		return false, err
	}
	s.failed(v.name, step, failure{reason: reason, message: v.foreignBucketMessage(bucket, reason), definite: true})
	return true, nil
}

// refuseMount notes that a change is refused for the bucket that it would mount. A POST of a user's OSCAR checks by his
// token; to the cluster's credential it also gives what has no owner or is the administrator's, and the user gets all
// rights on it.
func (s *Services) refuseMount(v *observation, already []string) bool {
	if !definition.UsersService(v.desired) {
		return false
	}
	known := definition.Union(already, v.def.Left, s.madeBuckets(v))
	for _, name := range v.def.Mounted() {
		bucket, exists := v.buckets[name]
		if exists && bucket.Owner != v.desired.Owner && !slices.Contains(known, name) {
			reason := record.ReasonForeignBucket
			s.failed(v.name, update, failure{reason: reason, message: v.foreignBucketMessage(name, reason), definite: true})
			return true
		}
	}
	return false
}

// absent are those names that are not among the buckets.
func absent(names []string, buckets answers.BucketSet) []string {
	var out []string
	for _, name := range names {
		if _, exists := buckets[name]; !exists {
			out = append(out, name)
		}
	}
	return out
}

// operation is how reports name a step.
func (a act) operation() string {
	switch a {
	case detach:
		return "detach"
	case erase, dropBuckets, dropVolume, sweep:
		return record.OperationDelete
	}
	return strings.ReplaceAll(a.String(), " ", "_")
}
