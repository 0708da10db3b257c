// Package wire owns a network in memory whose faults a test decides, from a seed. It
// runs on virtual time: inside a testing/synctest bubble nothing of it waits but on
// channels, timers and sync.Cond, and it starts no goroutine that outlives Close.
//
// A [Host] is the network as one process sees it: it listens and dials, and it can be
// killed, frozen and thawed. A [Rule] says what happens to the bytes that one host sends
// another: how long they take, whether they are held back, whether connections are
// refused, never answered, broken or silent. A lost request is a connection that breaks
// in the direction of the server, a lost answer one that breaks in the direction of the
// client, after the server has done its work.
//
// What chance decides of a connection depends on the seed, the names of the two hosts,
// the connection's ordinal among those that the one dialled to the other, and the order
// of writes in its direction; not on other connections.
//
// It is not TCP: there is no half-close, a lost acknowledgement stops nobody, and a hole
// in the stream is never seen. Connections of a Network that was made in a bubble are
// used in that bubble only.
package wire
