// Package gate says whether the store may be read and written now: whether its history is
// certain, whether etcd has space, and whether the state is as new as the store. Every use case
// goes through it. It also has the parts that all transactions share: epochs, the fence,
// retries, and splitting a write that is too large for one transaction.
package gate
