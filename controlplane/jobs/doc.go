// Package jobs accepts jobs, chooses the member that each one goes to, takes their steps,
// and shows them. Files that begin with decide are pure.
//
// An accepted job is a record. The dispatcher assigns queued jobs in rounds; the syncer of
// the chosen cluster claims and submits them; the reconciler takes the step that follows
// from the syncer's report. Each transaction compares the job's record, so that of two
// instances one wins.
package jobs
