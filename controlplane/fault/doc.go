// Package fault has the errors that use cases return: a code, a message that says what to do,
// and all violations of a request. The API maps codes to HTTP status in one table.
package fault
