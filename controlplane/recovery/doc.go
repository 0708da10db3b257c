// Package recovery handles a store that was restored from an older state. It detects the
// restore, begins a new epoch, lists the services on clusters that are ahead of the store, and
// carries out how a person resolves these differences. It also deletes services with our marks
// that belong to no federation any more.
package recovery
