// Package processlock owns a name that a process holds until it ends, however it ends. A later process on the same machine
// that gets the same name knows that the one before has ended.
package processlock
