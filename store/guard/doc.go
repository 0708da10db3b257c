// Package guard owns what a user of etcd who is not trusted may ask for: which calls,
// how much of an answer is built at once, how many requests, watches, leases and
// connections. It stands in front of an etcd as interceptors of gRPC and as its TLS:
// in the server of package embedded, and in that of package gateway. Whose keys are
// whose is etcd's to say, and not known here.
package guard
