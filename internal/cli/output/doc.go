// Package output owns how results and failures are printed: as tables, JSON or YAML, with nothing
// in them that a terminal would obey.
package output
