package session

import (
	"bytes"
	"iter"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/oscarfed/oscarfed/internal/failpoint"
	"github.com/oscarfed/oscarfed/internal/signal"
	"github.com/oscarfed/oscarfed/store"
	"github.com/oscarfed/oscarfed/store/record"
	"github.com/oscarfed/oscarfed/store/seal"
)

// Cluster is the cluster that the syncer speaks for. All fields are set before it is used,
// and not changed.
type Cluster struct {
	// ID is the cluster's id, and Instance names this process.
	ID, Instance string
	Store        *store.Store
	// Mirror has the cluster's own keys.
	Mirror *store.Mirror
	// Identity opens what is sealed to this cluster.
	Identity   *seal.Identity
	Now        func() time.Time
	Log        *slog.Logger
	FailPoints *failpoint.Trigger
	// Forms are what this version reads and writes.
	Forms record.Forms
	// Memory keeps which registration is served, and AcceptUID is one that is served
	// although another one is remembered.
	Memory    Memory
	AcceptUID string
	// Compare is rung when all services are to be compared at once.
	Compare signal.Signal

	// own is the uid of the registration that is served; nil before the first.
	own atomic.Pointer[string]
	// restored is the epoch in which etcd was seen to have gone back.
	restored atomic.Pointer[string]
}

// UID is that of the registration that is served; empty before the first.
func (c *Cluster) UID() string {
	if own := c.own.Load(); own != nil {
		return *own
	}
	return ""
}

// DesiredCluster is nil when the record is absent or cannot be read.
func (c *Cluster) DesiredCluster(view *store.MirrorView) *record.DesiredCluster {
	kv, ok := view.KV(record.DesiredClusterKey(c.ID))
	if !ok {
		return nil
	}
	reg, err := store.Decode[record.DesiredCluster](kv)
	if err != nil {
		return nil
	}
	return reg
}

// ObservedCluster is our last report about the cluster; nil when the record is absent or cannot be read.
func (c *Cluster) ObservedCluster(view *store.MirrorView) *record.ObservedCluster {
	kv, ok := view.KV(record.ObservedClusterKey(c.ID))
	if !ok {
		return nil
	}
	told, err := store.Decode[record.ObservedCluster](kv)
	if err != nil {
		return nil
	}
	return told
}

// Observed is our last report about a life of a service, or nil.
func (c *Cluster) Observed(view *store.MirrorView, name, uid string) *record.Observed {
	kv, ok := view.KV(record.ObservedServiceKey(c.ID, name))
	if !ok {
		return nil
	}
	return c.DecodeObserved(kv, uid)
}

// DecodeObserved gives nil for a report about another life, and for one that
// cannot be read: it will be written anew.
func (c *Cluster) DecodeObserved(kv store.KV, uid string) *record.Observed {
	o, err := store.Decode[record.Observed](kv)
	if err != nil {
		c.Log.Error("own report cannot be read; it is written anew", "error", err)
		return nil
	}
	if o.UID != uid {
		return nil
	}
	return o
}

// Desired is what is desired of a service, as the mirror has it; nil for nothing.
func (c *Cluster) Desired(name string) *record.Desired {
	return DesiredIn(c.Mirror.Snapshot(), record.DesiredServiceKey(c.ID, name))
}

// DesiredIn is nil for a record that is absent, and for one that cannot be read.
func DesiredIn(view *store.MirrorView, key string) *record.Desired {
	kv, ok := view.KV(key)
	if !ok {
		return nil
	}
	d, err := store.Decode[record.Desired](kv)
	if err != nil {
		return nil
	}
	return d
}

// OfFederation runs over the desired services of a federation that can be read, by name. Of the others of the cluster,
// which may be thousands, hardly any is decoded.
func (c *Cluster) OfFederation(view *store.MirrorView, federation string) iter.Seq2[string, *record.Desired] {
	return func(yield func(string, *record.Desired) bool) {
		for kv := range view.Prefix(record.DesiredServicesPrefix(c.ID)) {
			if !bytes.Contains(kv.Value, []byte(federation)) {
				continue
			}
			d, err := store.Decode[record.Desired](kv)
			if err == nil && d.Federation == federation && !yield(record.ParseKey(kv.Key).Name, d) {
				return
			}
		}
	}
}

// Standing is what holds for the whole cluster.
type Standing struct {
	// State is that of the registration.
	State record.ClusterState
	// Stopped says that nothing is written to OSCAR: the cluster is paused or revoked, has the OSCAR
	// of another one, or its record has a word that is not known.
	Stopped bool
	// Epoch is the present one as records name it, and Restored says that it is over:
	// etcd was restored, and no control plane has begun another.
	Epoch    string
	Restored bool
}

// Standing is how the cluster stands by desired/cluster, as it was read; an error if that is not of our registration.
func (c *Cluster) Standing(kv store.KV, ok bool) (Standing, error) {
	reg, err := c.Serves(kv, ok)
	if err != nil {
		return Standing{}, err
	}
	return Standing{State: reg.State, Stopped: stopped(reg), Epoch: reg.Word(), Restored: c.Restored(reg)}, nil
}

// stopped says whether nothing is written to OSCAR. A word that is not known, of a newer control
// plane, is taken for a pause.
func stopped(reg *record.DesiredCluster) bool {
	return reg.State == record.ClusterPaused || reg.State == record.ClusterRevoked || reg.SameOscarAs != "" || record.Strange(reg) != ""
}
