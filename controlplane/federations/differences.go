package federations

import (
	"fmt"
	"strings"

	"github.com/oscarfed/oscarfed/controlplane/fault"
	"github.com/oscarfed/oscarfed/store/record"
)

func heldBack(f *record.Federation, places []string) error {
	return &fault.Error{Code: fault.CodeConflict, Message: fmt.Sprintf(
		"federation %q is held on %s, since the store was restored from an older state; oscarfed describe shows how they differ, oscarfed resolve %s ends it",
		f.GroupID, strings.Join(places, ", "), places[0])}
}
