// Package virtual owns etcd servers that run in virtual time: inside a bubble of
// testing/synctest, on a listener in memory. They are etcd's whole server, raft and gRPC
// included, with the settings of package embedded; etcd's own client connects to them.
//
// What is not real: there is one member, its listener is no socket, and its disk is memory
// where the machine has some. A watch that is behind gets all that it has missed at once, not a
// thousand revisions at a time.
package virtual
