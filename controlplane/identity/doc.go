// Package identity owns authentication: it turns the credentials of a request into a Caller, or
// refuses them. Of what a caller may do it decides only ownership and visibility.
package identity
