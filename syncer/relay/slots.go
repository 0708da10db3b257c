package relay

import (
	"fmt"
	"math"
	"net/http"
	"strconv"
	"time"

	v1 "github.com/oscarfed/oscarfed/api/v1"
	"github.com/oscarfed/oscarfed/internal/share"
)

// takeSlot takes a slot for the tenant that asks, or says why not. give returns it.
func takeSlot(slots *share.Slots, r *http.Request) (give func(), no *refusal) {
	give, err := slots.Take(r.Context(), tenantOf(r), waitOf(r))
	if err != nil {
		return nil, &refusal{http.StatusServiceUnavailable, v1.RelayBusy, "this cluster is asked as much as it answers at a time"}
	}
	return give, nil
}

// tenantOf is the tenant that a request is made for. An older control plane does not send it: then
// slots are shared by service.
func tenantOf(r *http.Request) share.Tenant {
	t := share.Tenant{Account: r.Header.Get(v1.RelayAccountHeader), Federation: r.Header.Get(v1.RelayFederationHeader)}
	if t.Account == "" {
		t.Account = "service " + r.PathValue("uid")
	}
	var w share.Weights
	if _, err := fmt.Sscan(r.Header.Get(v1.RelayWeightsHeader), &w.Account, &w.Federation); err == nil && isWeight(w.Account) && isWeight(w.Federation) {
		t.Weights = w
	}
	return t
}

func isWeight(w float64) bool { return w >= 0 && !math.IsInf(w, 0) && !math.IsNaN(w) }

// maxWait bounds for how long a request waits.
const maxWait = 10 * time.Minute

// waitOf is for how long a request may wait. That of an older control plane does not wait.
func waitOf(r *http.Request) time.Duration {
	seconds, err := strconv.ParseUint(r.Header.Get(v1.RelayWaitHeader), 10, 16)
	if err != nil {
		return 0
	}
	return min(time.Duration(seconds)*time.Second, maxWait)
}
