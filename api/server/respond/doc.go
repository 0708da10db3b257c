// Package respond owns the form of answers: JSON, text as OSCAR writes it, problem documents,
// event streams, and the one table from error code to HTTP status. What the form depends on is
// the state of a request, which the middleware fills in and handlers read.
package respond
