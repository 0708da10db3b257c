package controlplane

import (
	"github.com/oscarfed/oscarfed/controlplane/gate"
)

// FailPoints lists the points of create, delete and the removal of a cluster at which the tests end the
// process: before and after a write, since that is where an instance that dies leaves work to
// another one. Not every step is in it.
func FailPoints() []string {
	points := []string{"after_specs", "after_accept", "before_delete", "after_delete"}
	for _, step := range []string{
		"commit", "abort", "ready", "roll_back", "rolled_back", "deleted",
		"remove", "leave", "left", "disband", "unregister",
	} {
		points = append(points, "before_"+step, "after_"+step)
	}
	return prefixed(points)
}

// JobFailPoints lists those of jobs: before and after the transaction that accepts one,
// and of each step that is taken with it.
func JobFailPoints() []string {
	var points []string
	for _, step := range []string{
		"accept", "assign", "running", "end", "requeue", "park", "withdraw", "cancel", "order_cancel", "replay",
	} {
		points = append(points, "before_job_"+step, "after_job_"+step)
	}
	return prefixed(points)
}

func prefixed(points []string) []string {
	for i, p := range points {
		points[i] = gate.FailPrefix + p
	}
	return points
}
