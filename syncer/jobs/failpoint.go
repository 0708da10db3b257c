package jobs

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

// FailPoints lists the fail points that a job passes.
func FailPoints() []string {
	return []string{
		failBeforeClaim, failAfterClaim, failBeforeSubmitting, failAfterSubmitting, failBeforePost, failAfterPost,
		failBeforeSubmitted, failAfterSubmitted, failBeforeEnd, failAfterEnd,
	}
}
