// Package clock owns what time a process believes it is: the machine's time, moved by
// an offset that its environment may give.
//
// It serves the tests that run each process of a federation with a wrong clock of its
// own. A clock is a func() time.Time that main hands down by configuration; no other
// code asks the machine for the time of day. What it gives carries Go's monotonic
// reading, so that the difference of two times is right whatever happens to the clock
// between them.
//
// Beside it are waits and orders that need no clock of their own.
package clock
