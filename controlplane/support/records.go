package support

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/oscarfed/oscarfed/store"
	"github.com/oscarfed/oscarfed/store/record"
	"github.com/oscarfed/oscarfed/store/seal"
)

// records writes the records of the store into files of lines.
type records struct {
	store *store.Store
	add   func(name string, data []byte) error

	file           bytes.Buffer
	files, written int
	given, omitted map[record.Kind]int
	// broken says that add has failed.
	broken bool
}

// line is one record.
type line struct {
	Key      string `json:"key"`
	Revision int64  `json:"revision"`
	Bytes    int    `json:"bytes"`
	Record   any    `json:"record,omitempty"`
}

// part is a prefix of which records are given, and how many.
type part struct {
	prefix string
	most   int
}

// parts are the prefixes that are read. Below the others is nothing but definitions, events and
// secrets.
func parts() []part {
	return []part{
		{record.InstancesPrefix, mostOf},
		{record.ClustersPrefix, mostOf},
		{record.FederationsPrefix, mostOf},
		{record.NamesPrefix, mostOf},
		{record.ReservedPrefix, mostOf},
		{record.JobsPrefix, mostJobs},
		{record.DecisionsPrefix, mostJobs},
		{record.AuditPrefix, mostJobs},
		{record.DeletedPrefix, mostJobs},
		{record.ClusterTreePrefix, mostOf},
	}
}

// shown says whether the records of a kind are given. The others hold definitions, events, answers or
// secrets: of those below a cluster only the key is given. A kind that is not named here is not given.
func shown(kind record.Kind) bool {
	switch kind {
	case record.KindMeta, record.KindInstance, record.KindCluster, record.KindFence, record.KindElapsed, record.KindFederation, record.KindName,
		record.KindDeleted, record.KindAudit, record.KindDesiredCluster, record.KindDesiredService, record.KindObservedCluster,
		record.KindObservedService, record.KindSession, record.KindAsk, record.KindHold, record.KindHolding, record.KindWant, record.KindGrant,
		record.KindReading, record.KindJob, record.KindDecision, record.KindReserved, record.KindAssignment, record.KindJobReport,
		record.KindOffer, record.KindOfferAnswer, record.KindCapacity:
		return true
	}
	return false
}

func (r *records) write(ctx context.Context) error {
	fixed := []string{record.MetaKey, record.FenceKey, record.ElapsedKey}
	view, err := r.store.Read(ctx, fixed...)
	if err != nil {
		return err
	}
	for _, key := range fixed {
		if kv, ok := view.KV(key); ok {
			if err := r.one(kv); err != nil {
				return err
			}
		}
	}
	for _, p := range parts() {
		n := 0
		var failed error
		err := r.store.Backwards(ctx, p.prefix, "", func(kv store.KV) bool {
			kind := record.ParseKey(kv.Key).Kind
			if n++; n > p.most || r.written > mostBytes {
				r.omitted[kind]++
				return n < 2*p.most // what is left out is counted, but not without end
			}
			failed = r.one(kv)
			return failed == nil
		})
		if err = cmp.Or(failed, err); err != nil {
			return fmt.Errorf("%s: %w", p.prefix, err)
		}
	}
	return r.flush()
}

// one writes a record.
func (r *records) one(kv store.KV) error {
	kind := record.ParseKey(kv.Key).Kind
	out := line{Key: kv.Key, Revision: kv.ModRevision, Bytes: len(kv.Value)}
	if shown(kind) {
		decoder := json.NewDecoder(bytes.NewReader(kv.Value))
		decoder.UseNumber()
		var value any
		if err := decoder.Decode(&value); err != nil {
			out.Record = "no JSON"
		} else {
			out.Record = without(value)
		}
	}
	text, err := record.Encode(out)
	if err != nil {
		return err
	}
	r.given[kind]++
	r.written += len(text) + 1
	r.file.Write(text)
	r.file.WriteByte('\n')
	if r.file.Len() >= fileBytes {
		return r.flush()
	}
	return nil
}

// flush gives the file that is being written.
func (r *records) flush() error {
	if r.file.Len() == 0 {
		return nil
	}
	err := r.add(fmt.Sprintf("records-%03d.ndjson", r.files), bytes.Clone(r.file.Bytes()))
	r.broken = err != nil
	r.files++
	r.file.Reset()
	return err
}

// longText is the longest text that is given, in bytes. Messages for people are shorter.
const longText = 1000

// without gives a value without the fields that people entrust something to, wherever they are, and
// without sealed and long texts.
func without(value any) any {
	switch v := value.(type) {
	case map[string]any:
		for key, inner := range v {
			if entrusted(key) {
				v[key] = "left out"
				continue
			}
			v[key] = without(inner)
		}
	case []any:
		for i := range v {
			v[i] = without(v[i])
		}
	case string:
		if seal.HasEnvelope(v) {
			return "left out"
		}
		if len(v) > longText {
			return fmt.Sprintf("left out: %d bytes", len(v))
		}
	}
	return value
}

// entrusted says of the name of a field that it holds, or may hold, a secret, or what somebody wrote
// for his service alone. Records have no secrets but sealed ones: this is a second lock.
func entrusted(field string) bool {
	field = strings.ToLower(field)
	for _, word := range []string{"secret", "token", "password", "sealed", "credential"} {
		if strings.Contains(field, word) {
			return true
		}
	}
	switch field {
	case "refresh", "access": // sealed tokens
		return true
	case "mark", "script", "environment", "headers", "event", "service", "definition", "annotations":
		return true
	}
	return false
}
