// Package signal owns how one goroutine tells another that there is something to look at.
package signal
