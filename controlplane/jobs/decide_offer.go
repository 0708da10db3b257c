package jobs

import (
	"time"

	"github.com/oscarfed/oscarfed/store/record"
)

// offerSituation is everything that a decision about one offer is made from.
type offerSituation struct {
	// job is nil when the store does not know it. gone says that there is no offer: its syncer has
	// taken it away, although nothing has come of it.
	job     *record.Job
	offer   record.Offer
	gone    bool
	cluster string
	// answer is what stands, and stale says that it is of an older epoch.
	answer record.OfferWord
	stale  bool
	// restored says that the store has gone back to a backup at some time: an answer may be lost.
	// full says that one more job would exceed a limit.
	restored, full bool
	// ours says that the present attempt of the job stands on the cluster, and posted that
	// OSCAR has the present attempt, wherever that is.
	ours, posted bool
	// listed says of a Job that is held already that every member has told of its Jobs.
	listed bool
	// disbanded says that the federation is gone, or goes; unknown that there is no record of it.
	disbanded, unknown bool
	now                time.Time
	// frozenSince is when this instance first saw that the job is frozen, and goneSince that the
	// offer is gone while the present session of the cluster lasts; zero without a session.
	frozenSince, goneSince time.Time
	// crowded says that the cluster has more answers than a syncer has offers, by far.
	crowded bool
}

// freezeTimeout is how long a Job may stay frozen while no other member takes it, and how long a
// freeze that its syncer has not carried out holds up others.
const freezeTimeout = time.Minute

// offerDecision is the next step about an offer. The zero value is no step.
type offerDecision struct {
	name string
	// answer is to be written, drop is to take it away.
	answer record.OfferWord
	drop   bool
	// take makes the Job a queued job, frozen where it is.
	take bool
	// back gives a frozen job back to where it is: one of ours is assigned there
	// again, any other has ended as returned.
	back bool
	// thaw forgets that it stands frozen.
	thaw bool
	// cancel ends the job, of which the Job is the present attempt: that was ordered before it was frozen.
	cancel bool
}

// decideOffer is pure: what is answered to an offer, but for the freeze, which needs the
// dispatcher's choice.
//
//	frozen, and no member has it ───────► take: queued, from there
//	frozen, and its end was ordered ────► release: cancelled
//	taken, and OSCAR elsewhere has it ──► release
//	taken, and no member takes it ──────► back: restore
//	taken, and it started all the same ─► back, without an answer
//	over, gone for long, or crowded ────► the answer goes
//	held for an offer that is lost, and
//	no member has it ───────────────────► restore
func decideOffer(s offerSituation) offerDecision {
	frozenHere := s.job != nil && s.job.Frozen != nil && s.job.Frozen.ClusterID == s.cluster
	if s.gone {
		return s.leftovers(frozenHere)
	}
	switch s.offer.State {
	case record.OfferReleased, record.OfferRestored, record.OfferStarted:
		switch {
		case frozenHere && s.job.State == record.JobQueued:
			return offerDecision{name: "take_back", back: true}
		case frozenHere && s.posted:
			return offerDecision{name: "thaw", thaw: true}
		case frozenHere || s.answer == "":
			return offerDecision{}
		}
		return offerDecision{name: "forget_offer", drop: true}
	case record.OfferFrozen:
	case record.OfferWaiting:
		if s.offer.Held && (s.answer == "" || s.stale) {
			return s.lost(frozenHere)
		}
		return offerDecision{}
	default:
		return offerDecision{}
	}
	if !frozenHere {
		return s.untaken()
	}
	switch {
	case s.posted:
		return offerDecision{name: "release", answer: record.OfferRelease, thaw: true}
	case s.job.State != record.JobQueued:
	case s.disbanded, givenUp(s.job), s.now.Sub(s.frozenSince) > freezeTimeout:
		return offerDecision{name: "restore", answer: record.OfferRestore, back: true}
	}
	if s.stale || s.answer == "" {
		return offerDecision{name: "freeze_again", answer: record.OfferFreeze}
	}
	return offerDecision{}
}

// goneFor is how long an offer of a connected cluster is gone before its answer goes, too. A syncer
// whose reports were deleted, by a readmission, holds its Jobs still: it offers them again, or does
// as was answered. It may not watch Jobs for some minutes.
const goneFor = 15 * time.Minute

// maxAnswers is how many answers a cluster may have while some of them are to offers that are gone. A
// syncer offers 256 Jobs at a time; one that offers others without end would fill etcd with answers.
const maxAnswers = 1024

// leftovers is the step for an offer that is gone.
func (s offerSituation) leftovers(frozenHere bool) offerDecision {
	switch {
	case frozenHere && s.posted:
		return offerDecision{name: "release", answer: record.OfferRelease, thaw: true}
	case frozenHere && s.job.State == record.JobQueued && s.now.Sub(s.frozenSince) > freezeTimeout:
		return offerDecision{name: "restore", answer: record.OfferRestore, back: true}
	case frozenHere, s.answer == "", !s.crowded && (s.goneSince.IsZero() || s.now.Sub(s.goneSince) <= goneFor):
		return offerDecision{}
	}
	return offerDecision{name: "forget_offer", drop: true}
}

// lost is the step for a Job that is held for an offer that the store has lost. Whether another member
// has it is known when all have told of their Jobs. If none has, it goes on, and may be offered again.
func (s offerSituation) lost(frozenHere bool) offerDecision {
	switch {
	case frozenHere:
		return offerDecision{name: "freeze_again", answer: record.OfferFreeze}
	case !s.listed:
		return offerDecision{}
	case s.hasIt():
		return offerDecision{name: "release", answer: record.OfferRelease}
	case s.job == nil, s.ours, s.job.State == record.JobReturned:
		return offerDecision{name: "restore", answer: record.OfferRestore}
	}
	return offerDecision{}
}

// hasIt says whether, by the store or in a history that was lost, another member has or had the job.
func (s offerSituation) hasIt() bool {
	return s.posted || s.job != nil && s.job.State.Ended() && s.job.State != record.JobParked && s.job.State != record.JobReturned
}

// untaken is the step for a frozen Job that has no job in the store. One that nobody has asked its
// cluster to freeze is not taken: a cluster could fill the store with them.
func (s offerSituation) untaken() offerDecision {
	answered := s.answer != "" && !s.stale
	more := s.job == nil || s.job.State == record.JobReturned
	switch {
	case answered && s.answer != record.OfferFreeze:
		return offerDecision{} // its syncer does so
	case s.answer == "" && !s.restored && (more || s.ours), (s.full || s.unknown) && more && answered:
		return offerDecision{name: "restore", answer: record.OfferRestore}
	case (s.full || s.unknown) && more:
		return offerDecision{} // another member may have it: it waits for a place, or a person
	case s.ours && s.job.Cancel != "":
		return offerDecision{name: "end", cancel: true}
	case s.job == nil, s.ours, s.job.State == record.JobReturned:
		return offerDecision{name: "take", take: true}
	case s.hasIt():
		return offerDecision{name: "release", answer: record.OfferRelease}
	}
	return offerDecision{}
}
