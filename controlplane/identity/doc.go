// Package identity owns the question who is calling: it turns the credentials of
// a request into a Caller, or refuses them. It decides nothing about what a
// caller may do with a federation beyond ownership and visibility.
package identity
