package gate

import (
	"fmt"
	"iter"

	"github.com/oscarfed/oscarfed/store/record"
)

// Staged is one record at its key.
type Staged struct {
	Key string
	Rec any
}

// Placed is a desired record with the cluster and the service that it is written for.
type Placed struct {
	Cluster, Service string
	Rec              *record.Desired
	// DropSpec names the spec that nothing refers to any more.
	DropSpec string
}

// Sizes of small writes, in bytes.
const (
	RegistrationBytes = 256 << 10
	JobBytes          = 8 << 10
)

// bytesOf estimates the bytes that records take.
func bytesOf(records ...Staged) int64 {
	sum := 0
	for _, r := range records {
		sum += len(r.Key)
		switch rec := r.Rec.(type) {
		case record.Spec: // the large ones are not encoded for this
			sum += len(rec.Service) + len(rec.Changes) + len(rec.Sealed) + 512
		case record.History:
			sum += len(rec.Service) + len(rec.Changes) + 512
		case record.Part:
			sum += len(rec.Service) + len(rec.Piece) + len(rec.Sealed) + 256
		case record.Secrets:
			sum += len(rec.Sealed) + 512
		default:
			if value, err := record.Encode(rec); err == nil {
				sum += len(value)
			}
		}
	}
	return int64(sum)
}

// A transaction is first tried with so many records and bytes, which is less than etcd takes.
const (
	runRecords = 100
	runBytes   = 1_300_000
)

// Runs cuts records into runs that fit into one transaction each by the estimate of their bytes.
// A record that is larger than a transaction has a run of its own.
func Runs(records []Staged) iter.Seq[[]Staged] {
	return func(yield func([]Staged) bool) {
		first, size := 0, int64(0)
		for i, r := range records {
			bytes := bytesOf(r)
			if i > first && (size+bytes > runBytes || i-first == runRecords) {
				if !yield(records[first:i]) {
					return
				}
				first, size = i, 0
			}
			size += bytes
		}
		if first < len(records) {
			yield(records[first:])
		}
	}
}

// BytesThrough estimates the bytes that a creation or change of a federation writes until its
// outcome: its record and its desired records are written several times.
func BytesThrough(fed record.Federation, desired []Placed, before ...Staged) int64 {
	const times = 4
	size := bytesOf(before...) + times*bytesOf(Staged{"", fed})
	for _, p := range desired {
		size += times * bytesOf(Staged{"", p.Rec})
	}
	return size
}

// MiB writes a number of bytes in MiB.
func MiB(n int64) string { return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20)) }
