package record

import "slices"

// An epoch is one history of the store. It changes when the store was restored from
// a backup: what was written after that backup is lost, and generations are given a
// second time. Records name the epoch in which their generation was written; the
// first epoch, that of most stores for ever, is left out.

// Branch is a generation of another epoch that belongs to our history: the one at
// which an older epoch was left, or a later one that a person gave up.
type Branch struct {
	Epoch      string `json:"epoch" record:"id"`
	Generation int64  `json:"generation"`
}

// maxBranches bounds a record that lives through many restores. What is forgotten
// is held, not overwritten.
const maxBranches = 16

// Branched returns past with a further branch; the higher generation of an epoch
// counts. It leaves past itself alone.
func Branched(past []Branch, epoch string, generation int64) []Branch {
	out := slices.Clone(past)
	if i := slices.IndexFunc(out, func(b Branch) bool { return b.Epoch == epoch }); i >= 0 {
		out[i].Generation = max(out[i].Generation, generation)
		return out
	}
	out = append(out, Branch{Epoch: epoch, Generation: generation})
	return out[max(0, len(out)-maxBranches):]
}

// Advance gives what is desired another generation, of an epoch. Where an older
// epoch is left, the generation that it had come to stays known.
func (d *Desired) Advance(epoch string, generation int64) {
	if d.Epoch != epoch {
		d.Past, d.Again = Branched(d.Past, d.Epoch, d.Generation), false
	}
	d.Epoch, d.Generation = epoch, generation
}

// Covers says whether a service with the mark of this life, of an epoch and a
// generation, is in the past of what is desired, or is just that. What is not was
// written in a history that the store has lost.
func (d *Desired) Covers(epoch string, generation int64) bool {
	if epoch == d.Epoch {
		return generation <= d.Generation
	}
	return slices.ContainsFunc(d.Past, func(b Branch) bool { return b.Epoch == epoch && generation <= b.Generation })
}

// Word is the epoch as other records name it: empty in the first one.
func (m *Meta) Word() string {
	if m.RestoredAt == nil {
		return ""
	}
	return m.Epoch
}

// Word is the present epoch as other records name it: empty in the first one.
func (c *DesiredCluster) Word() string {
	if c.RestoredAt == nil {
		return ""
	}
	return c.Epoch
}

// maxEpochs bounds Meta.Epochs.
const maxEpochs = 64

// Renew gives the store a new epoch, after one that was lost: that of the present record,
// or a later one that the store does not have any more.
func (m *Meta) Renew(epoch, lost string, at Time) {
	m.Epochs = slices.Clone(m.Epochs)
	if lost != m.Epoch {
		m.Epochs = append(m.Epochs, lost)
	}
	m.Epochs = append(m.Epochs, m.Epoch)
	m.Epochs = m.Epochs[max(0, len(m.Epochs)-maxEpochs):]
	m.Epoch, m.RestoredAt = epoch, &at
}
