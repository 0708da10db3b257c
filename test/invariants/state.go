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

// newRecord gives an empty record of a kind, or nil.
func newRecord(kind record.Kind) any {
	switch kind {
	case record.KindMeta:
		return new(record.Meta)
	case record.KindCluster:
		return new(record.Cluster)
	case record.KindFence:
		return new(record.Fence)
	case record.KindFederation:
		return new(record.Federation)
	case record.KindName:
		return new(record.Name)
	case record.KindHistory:
		return new(record.History)
	case record.KindSecrets:
		return new(record.Secrets)
	case record.KindRequest:
		return new(record.Request)
	case record.KindDeleted:
		return new(record.Deleted)
	case record.KindDesiredCluster:
		return new(record.DesiredCluster)
	case record.KindDesiredService:
		return new(record.Desired)
	case record.KindSpec:
		return new(record.Spec)
	case record.KindOwner:
		return new(record.Owner)
	case record.KindTokens:
		return new(record.Tokens)
	case record.KindHold:
		return new(record.Hold)
	case record.KindHolding:
		return new(record.Holding)
	case record.KindTokenAsk:
		return new(record.TokenAsk)
	case record.KindGrant, record.KindGranted:
		return new(record.Grant)
	case record.KindWant:
		return new(record.Want)
	case record.KindReading:
		return new(record.Reading)
	case record.KindAudit:
		return new(record.Audit)
	case record.KindObservedCluster:
		return new(record.ObservedCluster)
	case record.KindObservedService:
		return new(record.Observed)
	case record.KindSession:
		return new(record.Session)
	case record.KindAsk:
		return new(record.Ask)
	case record.KindShown:
		return new(record.Shown)
	case record.KindJoin:
		return new(record.Join)
	case record.KindJob:
		return new(record.Job)
	case record.KindEvent, record.KindAssignedEvent, record.KindOfferedEvent:
		return new(record.Event)
	case record.KindDecision:
		return new(record.Decision)
	case record.KindReserved:
		return new(record.Reserved)
	case record.KindAssignment:
		return new(record.Assignment)
	case record.KindJobReport:
		return new(record.JobReport)
	case record.KindOffer:
		return new(record.Offer)
	case record.KindOfferAnswer:
		return new(record.OfferAnswer)
	case record.KindCapacity:
		return new(record.Capacity)
	case record.KindUnknown:
	}
	return nil
}

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
	rec := newRecord(e.ref.Kind)
	if rec == nil {
		return e, nil
	}
	if err := json.Unmarshal(kv.Value, rec); err != nil {
		return e, fmt.Errorf("it is no %s: %w", e.ref.Kind, err)
	}
	e.rec = rec
	return e, nil
}
