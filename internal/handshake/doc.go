// Package handshake bounds connections that were accepted and have not said yet who
// they are: how many there are, in all and of one address, and for how long.
package handshake
