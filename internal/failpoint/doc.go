// Package failpoint owns one way to die: a process that was told the name of a
// fail point in its environment kills itself there, as a power cut would.
//
// It serves the tests that end a daemon at every step of a protocol and look at
// what the restarted one makes of it. A fail point does nothing else: no error
// is returned, no delay is added, nothing is cleaned up. Without the environment
// variable a hit costs one comparison with nil.
package failpoint
