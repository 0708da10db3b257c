// Package controlplane is one instance of the control plane: it makes the use cases, each
// from a package below this one, and runs them. It decides nothing itself. To an OSCAR it
// sends invocations only (package runs): all else is the syncers' part.
//
// An instance has no state of its own but its key. A use case validates, writes one
// transaction and waits for the outcome; the workers of all instances take the next step by
// compare-and-swap, without a leader. Killing an instance at any point leaves the step to
// another one, or to itself when it is back.
//
// Imports go one way, as docs/packages.svg draws them.
package controlplane
