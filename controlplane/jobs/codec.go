package jobs

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"

	"github.com/oscarfed/oscarfed/controlplane/delegation"
	"github.com/oscarfed/oscarfed/store/record"
)

// reasons is the JSON in a record.Decision.
type reasons struct {
	Snapshot delegation.Snapshot `json:"snapshot"`
	Decision delegation.Decision `json:"decision"`
}

func (d *dispatcher) encode(s delegation.Snapshot, chosen delegation.Decision, at record.Time) (record.Decision, error) {
	doc, err := json.Marshal(reasons{s.Compact(), chosen})
	if err != nil {
		return record.Decision{}, fmt.Errorf("encode a decision: %w", err)
	}
	var b bytes.Buffer
	w, _ := d.gzips.Get().(*gzip.Writer)
	if w == nil {
		w, _ = gzip.NewWriterLevel(&b, gzip.BestSpeed) // a level that there is
	}
	defer d.gzips.Put(w)
	w.Reset(&b)
	_, err = w.Write(doc)
	if err := cmp.Or(err, w.Close()); err != nil {
		return record.Decision{}, fmt.Errorf("encode a decision: %w", err)
	}
	return record.Decision{V: record.Version, At: at, Gzip: base64.StdEncoding.EncodeToString(b.Bytes())}, nil
}

// maxDecision bounds a decision that is read, in bytes.
const maxDecision = 4 << 20

func decodeDecision(rec *record.Decision) (reasons, error) {
	var out reasons
	raw, err := base64.StdEncoding.DecodeString(rec.Gzip)
	if err != nil {
		return out, err
	}
	r, err := gzip.NewReader(bytes.NewReader(raw))
	if err != nil {
		return out, err
	}
	return out, json.NewDecoder(io.LimitReader(r, maxDecision)).Decode(&out)
}
