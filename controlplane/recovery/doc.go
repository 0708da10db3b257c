// Package recovery deals with a store that was restored from an older state. It notices
// that, begins a new epoch, holds what is ahead of the store on the clusters, and lets
// people resolve the differences. It also deletes services with our
// marks that belong to no federation any more.
package recovery
