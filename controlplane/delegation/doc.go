// Package delegation owns the choice of the place that a job goes to.
//
// It is pure: Choose reads one Snapshot and gives one Decision, and the same
// snapshot gives the same decision on every machine: what is drawn is drawn from
// the snapshot's seed, and floating point is kept from being fused. Both are stored
// with the job, the snapshot in the form that Compact gives, so that everybody can
// see later why a job went where it went.
//
// First each candidate is eligible or not (eligible.go); then those that are and
// have room (room.go) are put in order by the policy (static.go, random.go,
// load.go, topsis.go):
//
//	static:     by priority, 0 first
//	random:     drawn, uniformly or by weight
//	load-based: the most free CPU first
//	topsis:     the nearest to the best in six criteria first; those within a fifth
//	            of the best score are drawn
//
// A preference (priority 101, weight 0) keeps jobs from being handed to a member.
// It does not keep a job from the place where it came in: that is then the last choice.
package delegation
