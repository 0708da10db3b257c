// Package watch owns the stream of all that a caller may see: federations, services and clusters,
// and jobs and events when asked for, at first as they are and then each change and deletion. It keeps nothing for a watcher but the
// revision up to which it was told everything, so a slow watcher costs no memory: it gets several
// changes as one, and is told when its revision is no longer known.
package watch
