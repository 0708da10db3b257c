// Package fault is what use cases answer when they do not do what was asked: a code, a
// message that says what to do, and all violations of a request. The API maps codes to HTTP
// status in one table.
package fault
