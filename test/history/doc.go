// Package history makes histories of whole federations in virtual time, and judges them.
//
// A [Plan] is drawn from a seed: what users ask for and when, and what is broken and for how
// long. [Play] plays it against a test/world inside a bubble of testing/synctest: control planes,
// syncers and their clients are the code that ships, etcd is etcd's own server, OSCARs are
// internal/oscarsim, and everything between them is a test/wire. Then all faults end, and the
// history is judged: the promises of test/invariants at every revision, an order of the API's
// answers as test/linear demands it, every OSCAR against what the API says, every job against
// what the OSCARs have started, and that everything accepted is decided in time.
//
// A plan is data: [Shrink] leaves steps out while it still fails. A seed repeats what is asked and
// what is broken. The order of goroutines is Go's: a failure that needs one may need several tries.
package history
