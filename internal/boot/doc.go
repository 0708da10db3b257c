// Package boot wires the programs: it turns configuration into a running control
// plane, a running syncer, or a whole federation in one process. It is the only
// package that imports everything, and the only one that decides what listens
// where and in which order parts stop.
package boot
