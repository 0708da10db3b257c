package store

import (
	"bytes"
	"strings"

	"github.com/google/btree"

	"github.com/oscarfed/oscarfed/store/record"
)

// item is one key in the tree of a mirror: kv, or a packed record.
type item struct {
	key    string
	kv     *KV
	queued *queuedJob
}

// queuedJob is the record of a queued job, packed. It belongs to no lease.
type queuedJob struct {
	job               record.QueuedJob
	created, modified int64
}

// itemOf packs what may be packed.
func (m *Mirror) itemOf(kv KV) item {
	if id, ok := strings.CutPrefix(kv.Key, record.JobsPrefix); ok && m.cfg.PackJobs && kv.Lease == 0 {
		if q, ok := record.PackJob(id, kv.Value); ok {
			return item{key: kv.Key, queued: &queuedJob{job: q, created: kv.CreateRevision, modified: kv.ModRevision}}
		}
	}
	whole := kv
	return item{key: whole.Key, kv: &whole}
}

// valueIn is what a tree has at a key.
func valueIn(tree *btree.BTreeG[item], key string) (KV, bool) {
	i, ok := tree.Get(item{key: key})
	if !ok {
		return KV{}, false
	}
	return i.value(), true
}

func (i item) value() KV {
	if i.queued == nil {
		return *i.kv
	}
	value, err := i.queued.job.Encode()
	if err != nil {
		panic(err) // it was encoded when it was packed
	}
	return KV{Key: i.key, Value: value, CreateRevision: i.queued.created, ModRevision: i.queued.modified}
}

func (i item) revision() int64 {
	if i.queued != nil {
		return i.queued.modified
	}
	return i.kv.ModRevision
}

// same says whether two items of a key hold the same bytes of the same revision.
func (i item) same(o item) bool {
	if i.revision() != o.revision() || (i.queued == nil) != (o.queued == nil) {
		return false
	}
	if i.queued != nil {
		return i.queued.job == o.queued.job
	}
	return bytes.Equal(i.kv.Value, o.kv.Value)
}
