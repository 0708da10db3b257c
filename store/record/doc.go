// Package record owns what oscarfed keeps in etcd: the keys, the JSON records
// behind them, and the words that those records use (intents, phases, reasons).
//
// It is a leaf: it knows nothing of etcd, of transactions or of OSCAR. A record
// is one line of compact JSON whose first field is v, so that
//
//	etcdctl watch --prefix /oscarfed/v1/
//
// reads like a story. What a newer version has written stays: fields that a type does not
// have survive each change (KeepUnknown), and a record with a word that is not known here
// is left as it is (Strange).
//
// Every key has exactly one kind of writer: below
// c/<cluster>/observed/ and c/<cluster>/session the syncer of that cluster,
// everywhere else the control plane.
package record
