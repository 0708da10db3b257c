// Package auditlog owns the form in which the audit leaves the store: JSON lines, each with
// the hash of the one before, in a file or at a syslog. It does not know what an entry says.
//
// A line that was changed, removed or moved is found by the hashes. A user that can write the
// file can also write all of it anew: the hash of the newest line shows it, which is logged at
// each start, and so does a syslog on another machine.
package auditlog
