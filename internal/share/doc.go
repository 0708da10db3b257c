// Package share owns how a number of slots is shared among accounts, so that none of them
// shuts the others out. It knows nothing of what the slots are for.
package share
