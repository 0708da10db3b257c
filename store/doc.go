// Package store owns everything that oscarfed says to etcd: reads at one
// revision, transactions that are recomputed until they commit, a mirror of
// prefixes in memory, and leased sessions.
//
// It knows keys and bytes; what the records mean is decided by its callers, and
// how they are written by package record. No other package outside store/
// imports etcd.
//
// # Writing
//
// [Store.Update] reads a set of keys at one revision, calls Build to decide what
// to write, and commits it in one transaction that compares what Build expected.
// When a comparison fails, the same transaction returns the present values and
// Build is called again with them: a decision is never carried over to values
// that it was not made for. A try whose answer was lost may have been applied.
// Update then reads the record at Marker, and its history: when it carried the
// request id of this Update, the write is done.
//
// # Watching
//
// A [Mirror] lists its prefixes at one revision and follows them by one watch.
// Consumers take consistent snapshots and get the set of changed keys from a
// [Feed]; a slow one is never waited for. Whenever the watch breaks it lists
// again and works out the difference, deletions included.
//
// # Sessions
//
// A [Session] is a lease, kept alive, with a key on it. Transactions of its owner
// compare the key's create revision: a session that was lost can write no more,
// whatever its owner believes. The answer to each renewal names the store's revision: a
// mirror on the same connection that has seen it need not ask whether it misses anything.
//
// # Space
//
// A [SpaceWatch] looks at the members' databases, says when nothing that adds is
// to be written any more, and compacts, defragments and disarms when space is short.
package store
