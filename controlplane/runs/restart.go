package runs

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/oscarfed/oscarfed/controlplane/fault"
	"github.com/oscarfed/oscarfed/controlplane/identity"
)

// Restart has the OSCARs of the members restart the pods of an exposed service: of all members by
// the coordinator's name, of one by its own. It says of the members that were not reached why.
// Nothing is kept: a restart does not change what is desired.
func (c *Controller) Restart(ctx context.Context, caller identity.Caller, in LogTarget) ([]string, error) {
	p, err := c.serviceOf(ctx, caller, in)
	switch {
	case err != nil:
		return nil, err
	case !caller.MayChange(p.Rec.Owner):
		return nil, &fault.Error{Code: fault.CodeForbidden, Message: fmt.Sprintf("User %s doesn't have permission to manage this service", caller.Subject)}
	}
	members, missing := c.logMembers(caller, p, "")
	sent := order(ctx, members, missing, func(ctx context.Context, t target) (*http.Response, error) { return c.relay.Restart(ctx, t.Replica) },
		http.StatusOK, http.StatusBadRequest)
	switch {
	case sent.done > 0:
		return sent.missing, nil
	case sent.refused > 0: // OSCAR has no other reason
		return nil, &fault.Error{Code: fault.CodeInvalid, Message: fmt.Sprintf("service %q is not exposed", in.Service)}
	case sent.doubt:
		return nil, &fault.Error{Code: fault.CodeUnknownOutcome, Message: "which members were restarted is not known; send it again: " + strings.Join(sent.missing, "; ")}
	}
	return nil, &fault.Error{Code: fault.CodeUnavailable, RetryAfter: 5 * time.Second, Message: "no member was restarted: " + strings.Join(sent.missing, "; ")}
}
