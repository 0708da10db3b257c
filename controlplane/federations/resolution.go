package federations

import (
	"fmt"
	"strings"

	"github.com/oscarfed/oscarfed/api/oscar"
	"github.com/oscarfed/oscarfed/controlplane/fault"
	"github.com/oscarfed/oscarfed/store/record"
)

// Resolution is the side that was taken, on its way through a change.
type Resolution struct {
	UID string
	// generation is at least that of the change.
	Generation int64
	// accept is what of another history may be written over; again says that the
	// service is made though it is gone.
	Accept *record.Branch
	Again  bool
	// back is the orphan that becomes a member, with its uid.
	Back *oscar.Member
}

// apply gives a desired record the orders of a resolution that concern it.
func (r *Resolution) apply(d *record.Desired) {
	if r == nil || d.UID != r.UID {
		return
	}
	if r.Accept != nil {
		d.Past = record.Branched(d.Past, r.Accept.Epoch, r.Accept.Generation)
	}
	d.Again = d.Again || r.Again
}

func heldError(f *record.Federation, locations []string) error {
	return &fault.Error{Code: fault.CodeConflict, Message: fmt.Sprintf(
		"federation %q is held on %s, since the store was restored from an older state; oscarfed describe shows how they differ, oscarfed resolve %s ends it",
		f.GroupID, strings.Join(locations, ", "), locations[0])}
}
