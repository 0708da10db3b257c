package runs

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/oscarfed/oscarfed/controlplane/relay"
)

// ordered is what became of an order that went to several members.
type ordered struct {
	// done counts the members that carried it out, and refused those that said no.
	done, refused int
	// doubt says that one of the others may have carried it out.
	doubt bool
	// missing says of the members that did neither why.
	missing []string
}

// order sends an order to members. OSCAR answers with the status done or refused; missing has the
// members that were not asked.
func order(ctx context.Context, members []target, missing []string, ask func(context.Context, target) (*http.Response, error), done, refused int) ordered {
	out := ordered{missing: missing}
	for _, r := range everywhere(ctx, members, ask, func(reply) bool { return false }) {
		if r.err != nil {
			out.missing = append(out.missing, r.Cluster+": "+reasonOf(r.err))
			e, ok := errors.AsType[*relay.Error](r.err)
			out.doubt = out.doubt || ok && e.Sent
			continue
		}
		_ = r.resp.Body.Close() // its status says all
		switch r.resp.StatusCode {
		case done:
			out.done++
		case refused:
			out.refused++
		default:
			out.missing = append(out.missing, fmt.Sprintf("%s: OSCAR answered %d", r.Cluster, r.resp.StatusCode))
		}
	}
	return out
}
