// Package status owns what the syncer reports of its cluster as a whole: what OSCAR says of
// itself, whether it can be worked on, what stands there without being desired, and what the
// nodes have free.
//
// It reports; no decision about a service or a job is taken here.
package status
