package syncer

// Fail points: before and after each write to OSCAR, and each report, of a
// creation, a deletion and a release. See package failpoint.
const (
	failBeforeVote    = "syncer.before_vote"
	failAfterVote     = "syncer.after_vote"
	failBeforeCreate  = "syncer.before_create"
	failAfterCreate   = "syncer.after_create"
	failBeforeUpdate  = "syncer.before_update"
	failAfterUpdate   = "syncer.after_update"
	failBeforeReady   = "syncer.before_ready"
	failAfterReady    = "syncer.after_ready"
	failBeforeDetach  = "syncer.before_detach"
	failAfterDetach   = "syncer.after_detach"
	failBeforeErase   = "syncer.before_erase"
	failAfterErase    = "syncer.after_erase"
	failBeforeRelease = "syncer.before_release"
	failAfterRelease  = "syncer.after_release"
	failBeforeDrop    = "syncer.before_drop"
	failAfterDrop     = "syncer.after_drop"
	failBeforeDeleted = "syncer.before_deleted"
	failAfterDeleted  = "syncer.after_deleted"
)

// Fail points of a job: before and after each report and its POST.
const (
	failBeforeClaim      = "syncer.before_claim"
	failAfterClaim       = "syncer.after_claim"
	failBeforeSubmitting = "syncer.before_submitting"
	failAfterSubmitting  = "syncer.after_submitting"
	failBeforePost       = "syncer.before_post"
	failAfterPost        = "syncer.after_post"
	failBeforeSubmitted  = "syncer.before_submitted"
	failAfterSubmitted   = "syncer.after_submitted"
	failBeforeEnd        = "syncer.before_end"
	failAfterEnd         = "syncer.after_end"
)

// JobFailPoints lists the fail points that a job passes.
func JobFailPoints() []string {
	return []string{
		failBeforeClaim, failAfterClaim, failBeforeSubmitting, failAfterSubmitting, failBeforePost, failAfterPost,
		failBeforeSubmitted, failAfterSubmitted, failBeforeEnd, failAfterEnd,
	}
}

// FailPoints lists the fail points of services. Those of update are passed
// by a creation that attaches to the buckets of an earlier life.
func FailPoints() []string {
	return []string{
		failBeforeVote, failAfterVote, failBeforeCreate, failAfterCreate, failBeforeUpdate, failAfterUpdate,
		failBeforeReady, failAfterReady, failBeforeDetach, failAfterDetach, failBeforeErase, failAfterErase,
		failBeforeRelease, failAfterRelease, failBeforeDrop, failAfterDrop, failBeforeDeleted, failAfterDeleted,
	}
}
