// Package hint owns the words that say what a person can do about a cause of trouble: one table
// for replicas, clusters and jobs, which answers, events and the command line share.
package hint
