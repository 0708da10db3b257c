// Package share owns how a number of slots is shared among accounts and their federations by
// weight. It knows nothing of what the slots are for.
package share
