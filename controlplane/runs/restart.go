package runs

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/oscarfed/oscarfed/controlplane/fault"
	"github.com/oscarfed/oscarfed/controlplane/identity"
	"github.com/oscarfed/oscarfed/controlplane/relay"
)

// Restart has the OSCARs of the members restart the pods of an exposed service: of all members by
// the coordinator's name, of one by its own. It says of the members that were not reached why.
// Nothing is kept: a restart does not change what is desired.
func (c *Controller) Restart(ctx context.Context, caller identity.Caller, in LogTarget) (missing []string, err error) {
	members, missing, owns, err := c.logMembers(ctx, caller, in, "")
	switch {
	case err != nil:
		return nil, err
	case !owns:
		return nil, &fault.Error{Code: fault.CodeForbidden, Message: fmt.Sprintf("User %s doesn't have permission to manage this service", caller.Subject)}
	}
	done, exposed, doubt := 0, true, false
	for _, r := range everywhere(ctx, members,
		func(ctx context.Context, t target) (*http.Response, error) { return c.relay.Restart(ctx, t.Replica) },
		func(reply) bool { return false }) {
		if r.err != nil {
			missing = append(missing, r.Cluster+": "+reasonOf(r.err))
			e, ok := errors.AsType[*relay.Error](r.err)
			doubt = doubt || ok && e.Sent
			continue
		}
		_ = r.resp.Body.Close() // its status says all
		switch r.resp.StatusCode {
		case http.StatusOK:
			done++
		case http.StatusBadRequest: // OSCAR's only reason
			exposed = false
		default:
			missing = append(missing, fmt.Sprintf("%s: OSCAR answered %d", r.Cluster, r.resp.StatusCode))
		}
	}
	switch {
	case done > 0:
		return missing, nil
	case !exposed:
		return nil, &fault.Error{Code: fault.CodeInvalid, Message: fmt.Sprintf("service %q is not exposed", in.Service)}
	case doubt:
		return nil, &fault.Error{Code: fault.CodeUnknownOutcome, Message: "which members were restarted is not known; send it again: " + strings.Join(missing, "; ")}
	}
	return nil, &fault.Error{Code: fault.CodeUnavailable, RetryAfter: 5 * time.Second, Message: "no member was restarted: " + strings.Join(missing, "; ")}
}
