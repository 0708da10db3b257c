// Package cli owns the commands of oscarfed: what they ask of the API, what they
// print, and the status they end with.
//
// It is a client like any other: all it knows of a federation it learns through
// package api/client. Results go to standard output, as a table, JSON or YAML;
// progress, warnings and failures go to standard error, so that a pipe carries
// results only. The settings of a call come from flags, the environment
// (OSCARFED_ and the flag in upper snake case), the current context of the
// configuration file and the defaults, in this order. A flag that makes a command do
// something else is never taken from the environment (package command).
//
// tree.go has the tree of the commands. They are in packages services, jobs, clusters and account;
// each has a struct of its flags, a constructor and a method Run.
//
// Commands of other packages are handed to Run as values: cli does not know what
// implements them.
package cli
