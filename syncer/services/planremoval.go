package services

import (
	"cmp"
	"fmt"

	"github.com/oscarfed/oscarfed/store/record"
)

// planRemoval: the desired record is a tombstone.
func planRemoval(s situation) decision {
	if acknowledged(s.observed, s.revision) {
		return decision{act: rest}
	}
	switch s.local.whose {
	case noService:
		return planGone(s, "")
	case otherLife:
		// It becomes an orphan, about which a person decides, or is of a life that was deleted before.
		return planGone(s, "a service of another life of this replica stands on the cluster; the one to delete is gone")
	case ours:
		return planOurEnd(s)
	}
	return planGone(s, "a service of this name that is not of the federation stands on the cluster; it is left alone")
}

// acknowledged says that a report acknowledges the tombstone of a revision.
func acknowledged(o *record.Observed, revision int64) bool {
	return o != nil && o.Phase == record.PhaseDeleted && o.DesiredRevision == revision
}

// planGone: our service is not there (any more). A list alone does not say so: it may
// leave out a service that GET shows.
func planGone(s situation, message string) decision {
	if !s.fresh {
		return decision{act: reread}
	}
	if wait := s.unanswered(); wait > 0 {
		return s.lookWithin(wait)
	}
	if s.dropsBuckets() && !s.memory.bucketsDropped {
		if d, goes := s.drop(dropBuckets); goes {
			return d
		}
	}
	if s.dropsVolume() && !s.memory.volumeDone {
		if d, goes := s.drop(dropVolume); goes {
			return d
		}
	}
	if d, left := planSecret(s); left {
		return d
	}
	if wait := s.lateDelete(); wait > 0 {
		return s.lookWithin(wait)
	}
	if s.local.secretAlone {
		message = secretLeft
	}
	return decision{act: acknowledge, message: message}
}

// drop deletes data of the service that is gone, a user's with a token of his if one comes. Without it his volume
// cannot be reached: that is told, and holds nothing up.
func (s situation) drop(next act) (decision, bool) {
	switch {
	case s.Stopped:
		return decision{act: rest}, true
	case s.token.pending:
		return decision{act: look, after: pollWrite}, true
	case s.token.reason != "" && next == dropVolume:
		return decision{}, false
	}
	if d, wait := s.backOff(next); wait {
		return d, true
	}
	return decision{act: next}, true
}

// planOurEnd: our service stands and is to be deleted.
func planOurEnd(s situation) decision {
	have, epoch := s.local.generation, s.local.epoch
	if have == 0 {
		// Its marks are gone: a user's PUT dropped them, or our release took them. What was reported of it is of
		// the history that the store has.
		epoch = s.desired.Epoch
		if s.observed != nil {
			have = s.observed.ObservedGeneration
		}
	}
	switch {
	case !s.desired.Covers(epoch, have):
		return heldAhead(s, have)
	case s.local.half:
		return planHalf(s)
	case s.Stopped:
		return decision{act: rest}
	case s.desired.Keep == record.KeepRelease:
		return planRelease(s)
	case s.local.perishes != "" && s.desired.Data != record.DataDelete:
		return s.keepsPerishing()
	case !s.local.storage && s.latePut() > 0:
		return s.lookWithin(s.latePut()) // it would have the DELETE empty the buckets
	case s.local.running > 0 && s.desired.Jobs != record.JobsCancel:
		return decision{act: report, phase: record.PhaseDeleting, reason: record.ReasonJobsRunning, after: pollJobs,
			message: "jobs of the service are running, and its DELETE would end them; it goes when they have ended, or at once with ?jobs=cancel"}
	case !s.local.counted && s.desired.Jobs != record.JobsCancel && s.local.uncounted != "":
		return decision{act: report, phase: record.PhaseFailed, reason: record.ReasonDeleteFailed, message: fmt.Sprintf(
			"the jobs of the service cannot be counted (%s), and its DELETE would end them; it goes when they are known to have ended, or at once with ?jobs=cancel", s.local.uncounted)}
	case !s.local.counted && s.desired.Jobs != record.JobsCancel:
		return decision{act: count}
	}
	next := erase
	if s.local.storage {
		next = detach
		if d, stopped := s.startFirst(); stopped {
			return d
		}
	}
	if d, wait := s.backOff(next); wait {
		return d
	}
	return decision{act: next}
}

// planRelease: our service stands and is to be given free. It is never deleted.
func planRelease(s situation) decision {
	if !s.local.marked {
		if !s.fresh {
			return decision{act: reread}
		}
		return decision{act: acknowledge, message: "the service stays on the cluster, without our marks and out of its federation"}
	}
	if d, stopped := s.startFirst(); stopped {
		return d
	}
	if d, wait := s.backOff(release); wait {
		return d
	}
	return decision{act: release}
}

// volume is what the service mounts, or mounted when it was last seen.
func (s situation) volume() *record.Volume {
	return cmp.Or(s.memory.volume, record.VolumeOf(s.desired, s.observed))
}

// dropsBuckets says that buckets that this life made are to be deleted after its service.
func (s situation) dropsBuckets() bool {
	made := s.memory.bucketsMade || s.observed != nil && len(s.observed.BucketsMade) > 0 || s.desired.Told != nil && len(s.desired.Told.BucketsMade) > 0
	return s.desired.Data == record.DataDelete && made
}

// dropsVolume says that the volume is to be deleted after its service.
func (s situation) dropsVolume() bool {
	v := s.volume()
	return s.desired.Data == record.DataDelete && s.desired.Keep == "" && v != nil && v.Deletable
}

// keepsPerishing: the service was made without our policy, by an older syncer. Nothing
// can save its volume but to leave the service.
func (s situation) keepsPerishing() decision {
	return decision{act: report, phase: record.PhaseFailed, reason: record.ReasonDetachFailed, operation: detach.operation(), message: fmt.Sprintf(
		"OSCAR would delete volume %q with the service, and lets nobody change that; the service is not deleted: copy what is needed, and order ?data=delete", s.local.perishes)}
}
