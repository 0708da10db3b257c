// Package fdl reads and writes files of definitions: which files there are, their services with the
// scripts in them, and what is wrong with them.
package fdl
