// Package session owns what all parts of a syncer share: the cluster that it speaks for, and
// the session in etcd by which it alone may report about that cluster.
//
// A Cluster lasts as long as the process: where the records are, the registration that this
// syncer serves, and whether the store was restored from an older state. A Session lasts as
// long as one lease: whatever is written compares it, so that a syncer that has lost its
// lease writes nothing. It does not read or write OSCAR.
package session
