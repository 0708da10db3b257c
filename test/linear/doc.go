// Package linear proves that the HTTP API is linearizable: clients call it while
// processes are killed and links are cut, delayed and half-open, and porcupine
// looks for an order of their operations that a federation, as [Model] says what
// that is, could have answered so.
//
// A history is some dozens of operations on a few service names, small enough to be
// decided. The model knows what happens without a client: deciders end creations and
// changes, acknowledged tombstones move the revision. An outcome that a client does
// not know may take effect at any later time, or never; what it was told is definite.
//
// `make proof` makes histories for as long as it is told; the bugs that they were seen
// to find are in test/faults/README.md.
package linear
