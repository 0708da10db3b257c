package store

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// KV is one key at one revision. Its bytes are shared: do not change them.
type KV struct {
	Key   string
	Value []byte
	// CreateRevision is the revision of the transaction that made the key, and
	// ModRevision that of the last one that wrote it.
	CreateRevision, ModRevision int64
	// Lease is the lease that the key ends with; 0 for none.
	Lease int64
}

func kvOf(kv *mvccpb.KeyValue) KV {
	return KV{
		Key:            string(kv.Key),
		Value:          kv.Value,
		CreateRevision: kv.CreateRevision,
		ModRevision:    kv.ModRevision,
		Lease:          kv.Lease,
	}
}

// Decode reads the record at a key. What cannot be decoded is a *CorruptError.
func Decode[T any](kv KV) (*T, error) {
	out := new(T)
	if err := json.Unmarshal(kv.Value, out); err != nil {
		return nil, &CorruptError{Key: kv.Key, Err: err}
	}
	return out, nil
}

// View is what a set of keys held at one revision.
type View struct {
	// Revision is the revision of the store that the values were read at.
	Revision int64

	// keys has an entry for each key that was read: nil for an absent one.
	keys map[string]*KV
	// fromRead says that etcd itself told the revision.
	fromRead bool
}

// With is a guess for Update.From: what was read, and what a mirror shows of other keys. Each of
// those must be mirrored: one that is not would be taken for absent. Its revision is still that of
// the read, so that an update with a Marker that was not written before takes it.
func (v View) With(mirror *MirrorView, keys ...string) *View {
	out := mirror.Guess(keys...)
	out.Revision, out.fromRead = v.Revision, v.fromRead
	maps.Copy(out.keys, v.keys)
	return out
}

// Follows says whether keys that were read can be what became of a store that a mirror had shown before the
// read began. If not, the store was restored, and the mirror has not listed it yet. Each of the keys must be
// mirrored.
func (v View) Follows(before *MirrorView, keys ...string) bool {
	if v.Revision < before.revision {
		return false
	}
	for _, key := range keys {
		now, ok := v.KV(key)
		if !ok || now.ModRevision > before.revision {
			continue // written since, or deleted
		}
		if was, _ := before.KV(key); was.ModRevision != now.ModRevision {
			return false
		}
	}
	return true
}

// KV returns the key as it was at the view's revision. It is false for a key
// that was absent, and for one that was not read.
func (v View) KV(key string) (KV, bool) {
	if kv := v.keys[key]; kv != nil {
		return *kv, true
	}
	return KV{}, false
}

// read says whether the key was among those that were asked for.
func (v View) read(key string) bool {
	_, ok := v.keys[key]
	return ok
}

// modRevision is 0 for an absent key, as in etcd's comparisons.
func (v View) modRevision(key string) int64 {
	kv, _ := v.KV(key)
	return kv.ModRevision
}

// Get reads one key, linearizable. An absent key is ErrNotFound.
func (s *Store) Get(ctx context.Context, key string) (KV, error) {
	kv, _, err := s.get(ctx, key)
	if err != nil {
		return KV{}, fmt.Errorf("get %s: %w", key, err)
	}
	if kv == nil {
		return KV{}, fmt.Errorf("%s: %w", key, ErrNotFound)
	}
	return *kv, nil
}

// get returns nil for an absent key, and the revision it was read at.
func (s *Store) get(ctx context.Context, key string) (*KV, int64, error) {
	resp, err := Repeat(ctx, s, func(ctx context.Context) (*clientv3.GetResponse, error) {
		return s.client.Get(ctx, key)
	})
	if err != nil {
		return nil, 0, err
	}
	if len(resp.Kvs) == 0 {
		return nil, resp.Header.Revision, nil
	}
	return new(kvOf(resp.Kvs[0])), resp.Header.Revision, nil
}

// Read reads keys at one revision, linearizable. Absent keys are no error; more
// than 128 different keys are ErrTooLarge.
func (s *Store) Read(ctx context.Context, keys ...string) (View, error) {
	return s.readWith(ctx, s.client, keys, 0)
}

func (s *Store) readWith(ctx context.Context, client clientv3.KV, keys []string, revision int64) (View, error) {
	keys = slices.Clone(keys)
	slices.Sort(keys)
	keys = slices.Compact(keys)
	if len(keys) > maxOps {
		return View{}, fmt.Errorf("%w: %d keys are read at once, at most %d are possible", ErrTooLarge, len(keys), maxOps)
	}
	gets := make([]clientv3.Op, len(keys))
	for i, key := range keys {
		gets[i] = clientv3.OpGet(key, clientv3.WithRev(revision))
	}
	resp, err := Repeat(ctx, s, func(ctx context.Context) (*clientv3.TxnResponse, error) {
		return client.Txn(ctx).Then(gets...).Commit()
	})
	if err != nil {
		return View{}, fmt.Errorf("read %d keys: %w", len(keys), err)
	}
	return viewOf(keys, resp), nil
}

// viewOf makes a view of the reads, one for each key, that a transaction did.
func viewOf(keys []string, resp *clientv3.TxnResponse) View {
	v := View{Revision: resp.Header.Revision, keys: make(map[string]*KV, len(keys)), fromRead: true}
	for i, r := range resp.Responses {
		v.keys[keys[i]] = nil
		if got := r.GetResponseRange(); len(got.GetKvs()) > 0 {
			v.keys[keys[i]] = new(kvOf(got.Kvs[0]))
		}
	}
	return v
}
