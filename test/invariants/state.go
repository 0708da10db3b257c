package invariants

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/oscarfed/oscarfed/store"
	"github.com/oscarfed/oscarfed/store/record"
)

// entry is a key as it stands after a revision.
type entry struct {
	kv  store.KV
	ref record.Ref
	// rec is a pointer to the record; nil for a kind that is not known here and
	// for what cannot be decoded.
	rec any
}

// as is the entry's record if it has this type, else nil.
func as[T any](e *entry) *T {
	if e == nil {
		return nil
	}
	rec, _ := e.rec.(*T)
	return rec
}

// revision is the entry's mod revision; 0 for an absent key.
func (e *entry) revision() int64 {
	if e == nil {
		return 0
	}
	return e.kv.ModRevision
}

// change is what one revision did to one key; old or now is nil when the key was
// not there before, or is not there afterwards.
type change struct {
	key      string
	ref      record.Ref
	old, now *entry
}

// place is one service name on one cluster.
type place struct{ cluster, service string }

func (p place) String() string { return p.cluster + "/" + p.service }

func placeOf(m record.Member) place              { return place{m.ClusterID, m.ServiceName} }
func (p place) desiredKey() string               { return record.DesiredServiceKey(p.cluster, p.service) }
func (p place) observedKey() string              { return record.ObservedServiceKey(p.cluster, p.service) }
func placeOfRef(ref record.Ref) place            { return place{ref.Cluster, ref.Name} }
func (p place) specKey(d *record.Desired) string { return record.SpecKey(p.cluster, d.Spec) }

// decode reads a value as its key says.
func decode(kv store.KV) (*entry, error) {
	e := &entry{kv: kv, ref: record.ParseKey(kv.Key)}
	if !bytes.HasPrefix(kv.Value, []byte(`{"v":1,`)) {
		return e, errors.New(`a record is one line of JSON that begins with {"v":1,`)
	}
	if bytes.ContainsAny(kv.Value, "\r\n") {
		return e, errors.New("a record has no line breaks")
	}
	if !json.Valid(kv.Value) {
		return e, errors.New("it is not JSON")
	}
	rec := record.New(e.ref.Kind)
	if rec == nil {
		return e, nil
	}
	if err := json.Unmarshal(kv.Value, rec); err != nil {
		return e, fmt.Errorf("it is no %s: %w", e.ref.Kind, err)
	}
	e.rec = rec
	return e, nil
}
