// Package handshake bounds connections that were accepted and are not authenticated yet: how many
// there are, in all and of one address, and for how long.
package handshake
