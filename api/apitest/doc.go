// Package apitest owns the check that answers conform to the description of the
// API. Tests of any package wrap a handler or a transport with it and fail when
// an answer has a status, a header or a body that the description does not have.
package apitest
