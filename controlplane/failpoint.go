package controlplane

// failPrefix stands before the names of this package's fail points.
const failPrefix = "controlplane."

// FailPoints lists every point of create, delete and the removal of a cluster at which a test may end the
// process: before and after each write, since that is where an instance that dies
// leaves work to another one.
func FailPoints() []string {
	points := []string{"after_specs", "after_accept", "before_delete", "after_delete"}
	for _, step := range []string{
		"commit", "abort", "ready", "roll_back", "rolled_back", "deleted",
		"remove", "leave", "left", "disband", "unregister",
	} {
		points = append(points, "before_"+step, "after_"+step)
	}
	for i, p := range points {
		points[i] = failPrefix + p
	}
	return points
}
