package services

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

// FailPoints lists the fail points of services. Those of update are passed
// by a creation that attaches to the buckets of an earlier life.
func FailPoints() []string {
	return []string{
		failBeforeVote, failAfterVote, failBeforeCreate, failAfterCreate, failBeforeUpdate, failAfterUpdate,
		failBeforeReady, failAfterReady, failBeforeDetach, failAfterDetach, failBeforeErase, failAfterErase,
		failBeforeRelease, failAfterRelease, failBeforeDrop, failAfterDrop, failBeforeDeleted, failAfterDeleted,
	}
}
