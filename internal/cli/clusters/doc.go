// Package clusters owns the commands about clusters and about what happens on all of them: cluster,
// capacity, events, top and audit.
package clusters
