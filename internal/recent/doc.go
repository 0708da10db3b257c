// Package recent owns values that are kept within a bound until they are taken, the newest of them.
package recent
