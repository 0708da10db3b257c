// Package manager owns the conversation with the REST API of the local OSCAR
// Manager: one method per call, a deadline and a size limit on each, and one
// error type that says what may be concluded from a failure.
//
// It decides nothing about services. In particular it never concludes from a
// status that something was done: an OSCAR answers 500 after the work, and
// finishes work whose caller has gone.
package manager
