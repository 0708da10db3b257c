package virtual

import _ "unsafe" // for go:linkname

// A watch that is behind gets so many revisions at once from etcd; 1,000, unless changed.
//
//go:linkname watchBatchMaxRevs go.etcd.io/etcd/server/v3/storage/mvcc.watchBatchMaxRevs
var watchBatchMaxRevs int

// While watches stay behind after a batch, etcd's loop rests for as long as the batch took. In virtual
// time that is nothing, and a ticker with no interval panics: all of them get all at once.
func init() { watchBatchMaxRevs = 1 << 30 } //nolint:gochecknoinits // before any server of any test runs
