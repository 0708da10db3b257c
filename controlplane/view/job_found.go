package view

// foundAt names an attempt that was found on a cluster.
type foundAt struct {
	Cluster string
	Attempt int
}

// noteFound keeps the index of what was found after a restore.
func (x *jobIndex) noteFound(job string, at foundAt, found bool) {
	switch {
	case found && x.Found[job] == nil:
		x.Found[job] = map[foundAt]bool{at: true}
	case found:
		x.Found[job][at] = true
	default:
		if delete(x.Found[job], at); len(x.Found[job]) == 0 {
			delete(x.Found, job)
		}
	}
}
