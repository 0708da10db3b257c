// Package record owns what oscarfed keeps in etcd: the keys, the JSON records
// behind them, and the words that those records use (intents, phases, reasons).
//
// It is a leaf: it knows nothing of etcd, of transactions or of OSCAR. A record
// is one line of compact JSON whose first field is v, so that
//
//	etcdctl watch --prefix /oscarfed/v1/
//
// reads like a story. Every key has exactly one kind of writer: below
// c/<cluster>/observed/ and c/<cluster>/session the syncer of that cluster,
// everywhere else the control plane.
package record
