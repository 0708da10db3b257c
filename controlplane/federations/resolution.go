package federations

import (
	"fmt"
	"strings"

	"github.com/oscarfed/oscarfed/api/oscar"
	"github.com/oscarfed/oscarfed/controlplane/fault"
	"github.com/oscarfed/oscarfed/store/record"
)

// Resolution is a person's decision about a difference, as part of a change.
type Resolution struct {
	UID string
	// By is the subject of the person, when the control plane carries the decision out later.
	By string
	// Generation is the least generation of the change.
	Generation int64
	// Accept is the part of another history that may be written over, and Everywhere that it may be at each
	// replica of the federation. Again says that a missing service is made again.
	Accept     *record.Branch
	Everywhere bool
	Again      bool
	// Shown says that the definition is what a cluster has: it stands, as an older version may have taken it.
	Shown bool
	// Back is the orphan that becomes a member, with its uid.
	Back *oscar.Member
}

// apply adds the orders of a resolution to a desired record of the federation.
func (r *Resolution) apply(d *record.Desired) {
	if r == nil {
		return
	}
	if r.Accept != nil && (r.Everywhere || d.UID == r.UID) {
		d.Past = record.Branched(d.Past, r.Accept.Epoch, r.Accept.Generation)
	}
	d.Again = d.Again || r.Again && d.UID == r.UID
}

func heldError(f *record.Federation, locations []string) error {
	return &fault.Error{Code: fault.CodeConflict, Message: fmt.Sprintf(
		"federation %q is held on %s, since the store was restored from an older state; oscarfed describe shows how they differ, oscarfed resolve %s ends it",
		f.GroupID, strings.Join(locations, ", "), locations[0])}
}
