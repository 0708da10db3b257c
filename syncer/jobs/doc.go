// Package jobs owns the attempts of jobs that are assigned to this cluster: it claims them,
// posts each to OSCAR, watches its Job, and reports every step.
//
// plan is pure: it names the next step of one attempt. Jobs decides and writes reports for as
// many attempts at once as are due; calls of OSCAR run beside it. That OSCAR is asked is
// reported before it is asked, so that no restart, of whatever, posts a job twice without
// knowing. Lister and Counts tell other parts which Jobs there are.
package jobs
