// Package worker owns one kind of loop: goroutines that take keys from a queue, hand each
// to a function, and try again what failed.
//
// It is a thin layer over client-go's typed rate-limiting work queue. A key that is added
// several times before it is taken is handled once; a key is never handled by two
// goroutines at the same time; a key that is added while it is handled is handled again
// afterwards. What a key stands for is looked up by the handler, so that the handler acts
// on the newest state and not on the event that added the key.
package worker
