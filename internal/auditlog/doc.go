// Package auditlog owns the form in which the audit leaves the store: JSON lines, each with
// the hash of the one before, in a file or at a syslog. It does not know what an entry says.
//
// Lines may be told from lines that somebody changed, took out or moved. Whoever can write
// the file can write all of it anew: the hash of the newest line, which is logged at each
// start, tells, and so does a syslog on another machine.
package auditlog
