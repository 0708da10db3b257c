package clusters

import (
	"cmp"
	"fmt"

	"github.com/oscarfed/oscarfed/controlplane/fault"
	"github.com/oscarfed/oscarfed/store"
	"github.com/oscarfed/oscarfed/store/record"
)

// decodeAt is the record at a key of a view; nil when there is none.
func decodeAt[T any](v store.View, key string) (*T, error) {
	kv, ok := v.KV(key)
	if !ok {
		return nil, nil
	}
	return store.Decode[T](kv)
}

// revisionAt is when the record at a key of a view was last written; 0 when there is none.
func revisionAt(v store.View, key string) int64 {
	kv, _ := v.KV(key)
	return kv.ModRevision
}

// registration is what the view has of a cluster: its registration, and what its syncer is
// told; nil for what is not there.
func registration(v store.View, id string) (*record.Cluster, *record.DesiredCluster, error) {
	reg, err := decodeAt[record.Cluster](v, record.ClusterKey(id))
	if err != nil {
		return nil, nil, err
	}
	told, err := decodeAt[record.DesiredCluster](v, record.DesiredClusterKey(id))
	return reg, told, err
}

// changeable is the registration of a cluster that is to be changed. It refuses one that is
// not there, and one with a word of a newer version.
func changeable(v store.View, id string) (*record.Cluster, *record.DesiredCluster, error) {
	reg, told, err := registration(v, id)
	switch {
	case err != nil:
		return nil, nil, err
	case reg == nil || told == nil:
		return nil, nil, fault.NotFound(fmt.Sprintf("cluster %q is not registered", id))
	}
	if word := cmp.Or(record.Strange(reg), record.Strange(told)); word != "" {
		return nil, nil, fault.NewerVersion(fmt.Sprintf("cluster %q", id), word)
	}
	return reg, told, nil
}
