// Command coverage plays the trials and histories, and tells which decisions none of them has made: branches of
// the pure functions that decide, and edges of the state machines of federations, replicas and
// jobs. What cannot happen in a history is listed in excused.go, with the reason; an excuse for what has
// happened, or is not there any more, fails the command.
package main
