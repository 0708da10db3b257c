// Package stats owns the numbers of a live view: how many jobs there are by state, cluster and
// edge, and what they did in the last hour. Counts are those that the read model keeps; series are
// kept in memory for the control plane and for each owner, in a fixed size.
package stats
