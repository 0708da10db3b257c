// Package topology owns the graph of a federation: which services it has, on
// which clusters, and which replica lists which.
//
// It is pure: it makes a graph from a submitted service (FromService), renders
// what is sent to each cluster's OSCAR (Render), and compares two graphs (Diff).
// The same input gives the same bytes. It reads no store and no clock.
//
//	none: no replica lists another; the replicas are deployed, no job moves
//	star: the coordinator lists all others, they list none (tree is the older word)
//	mesh: every replica lists all others
package topology
