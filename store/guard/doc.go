// Package guard owns what an untrusted user of etcd may ask for: which calls, how much of an
// answer is built at once, how many requests, watches, leases and connections. It stands in front
// of an etcd as interceptors of gRPC and as its TLS: in the server of package embedded, and in
// that of package gateway. etcd decides which keys a user may read and write; guard does not know
// that, but for one thing which etcd's rights cannot say: a user may get a single part of a
// definition whose random name it knows, and no range of them. Readers of one large part share its
// answer.
package guard
