package relay

import (
	"errors"
	"net/http"

	v1 "github.com/oscarfed/oscarfed/api/v1"
	"github.com/oscarfed/oscarfed/internal/share"
)

// takeSlot takes a slot for the account that asks, or says why not. give returns it.
func takeSlot(slots *share.Slots, r *http.Request) (give func(), no *refusal) {
	give, err := slots.Take(accountOf(r))
	switch {
	case errors.Is(err, share.ErrShare):
		return nil, &refusal{http.StatusServiceUnavailable, v1.RelayBusy,
			"this cluster answers as much for this account as one may ask at a time; the rest is for others"}
	case err != nil:
		return nil, &refusal{http.StatusServiceUnavailable, v1.RelayBusy, "this cluster is asked as much as it answers at a time"}
	}
	return give, nil
}

// accountOf is the account of the caller. An older control plane does not send it: then slots
// are shared by service.
func accountOf(r *http.Request) string {
	if account := r.Header.Get(v1.RelayAccountHeader); account != "" {
		return account
	}
	return "service " + r.PathValue("uid")
}
