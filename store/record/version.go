package record

import "fmt"

// A form is a way of writing records that an older version would misunderstand. Fields
// that are only added are none: they survive older versions (KeepUnknown). Forms have
// numbers. A new one is written only when Meta asks all instances to read it, which it does
// once an upgrade is finished: until then the version before may come back. A syncer gets
// what it has announced that it reads.

// Forms is the newest form that a program reads, and the newest that it writes.
type Forms struct {
	Reads  int `json:"reads"`
	Writes int `json:"writes"`
}

// OwnForms are those of this version: the one place where they are.
func OwnForms() Forms { return Forms{Reads: FormBatch, Writes: FormBatch} }

const (
	// FormParts is the form with parts: specs, histories and secrets may name some.
	FormParts = 2
	// FormBatch is the form with batches: the creation of a federation may end with that of others.
	FormBatch = 3
)

// Minimum is what a program must read and write to work with a store; 0 stands for 1.
type Minimum struct {
	MinReader int `json:"min_reader,omitempty"`
	MinWriter int `json:"min_writer,omitempty"`
}

// Minimum is what lets these forms be written.
func (f Forms) Minimum() Minimum { return Minimum{MinReader: f.Writes, MinWriter: f.Writes} }

// Refuses says, in words, why a program may not work with the store; nil when it may.
func (m Minimum) Refuses(own Forms) error {
	switch {
	case max(m.MinReader, 1) > own.Reads:
		return fmt.Errorf("the store is written in form %d, and this version reads up to form %d: use the version that the others run, or a newer one", m.MinReader, own.Reads)
	case max(m.MinWriter, 1) > own.Writes:
		return fmt.Errorf("the store takes form %d, and this version writes up to form %d: use the version that the others run, or a newer one", m.MinWriter, own.Writes)
	}
	return nil
}

// Raised is the minimum that asks for both.
func (m Minimum) Raised(to Minimum) Minimum {
	return Minimum{max(m.MinReader, to.MinReader), max(m.MinWriter, to.MinWriter)}
}

// InstancesPrefix covers the instances of the control plane that run.
const InstancesPrefix = Root + "instances/"

// InstanceKey is put by an instance when it starts, and carries its lease.
func InstanceKey(id string) string { return InstancesPrefix + id }

// Instance is what an instance of the control plane announces of itself.
type Instance struct {
	V       int    `json:"v"`
	Version string `json:"version"`
	Forms
	StartedAt Time `json:"started_at"`
}
