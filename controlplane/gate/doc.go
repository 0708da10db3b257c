// Package gate says whether the store may be read and written now: whether its history is
// certain, whether etcd has space, and whether the state is as new as the store. Every use
// case passes it. It also has what all transactions share: epochs, the fence, retries and
// the splitting of what is too large for one.
package gate
