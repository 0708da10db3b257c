// Command coverage plays the trials and histories, and tells which decisions none of them has made: branches of
// the pure functions that decide, and edges of the state machines of federations, replicas and
// jobs. What cannot happen in a history is listed in excused.go, with the reason.
package main
