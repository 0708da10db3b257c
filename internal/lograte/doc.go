// Package lograte owns a bound on how often a daemon logs the same line.
//
// Whatever goes wrong again and again, by a loop or by another machine, must fill no disk
// and hide no other line. A Handler lets the first few of equal lines through in each
// interval, and says at its end how many it left out. Lines are equal when their level,
// their message and what they are about are: the attributes of identity, not the error.
package lograte
