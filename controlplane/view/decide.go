package view

import (
	"time"

	"github.com/oscarfed/oscarfed/store/record"
)

// Situation is one federation with all that a decision about it needs, as it
// stood at one revision of the store.
type Situation struct {
	Fed      record.Federation
	Replicas []ReplicaState
	// adding are the replicas that a change waits for, leaving those whose
	// tombstones are not acknowledged yet.
	Adding, Leaving []ReplicaState
	// removing are the clusters that it is on and that are being removed.
	Removing map[string]*record.Removal
	Now      time.Time
	// age is how old the federation's record is, as all instances agree.
	Age time.Duration
	// since is when this instance first saw the deadline that the federation has
	// now, and changeSince that of its change. Zero means when it was written.
	Since, ChangeSince time.Time
	// epoch is the present one, as records name it.
	Epoch string
}
