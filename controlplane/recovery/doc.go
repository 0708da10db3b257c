// Package recovery deals with a store that was restored from an older state. It notices
// that, begins a new epoch, holds what is ahead of the store on the clusters, and lets
// people resolve the differences. It also deletes what carries our marks and belongs to
// nobody any more.
package recovery
