package record

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// What was done for an order is in every later report about it, whatever comes between.
func TestAReportFollowsAnotherOfTheSameOrder(t *testing.T) {
	first, later := At(time.Unix(100, 0)), At(time.Unix(200, 0))
	ended := Holding{State: HoldEnded, Serial: 7, Revoked: true, LastTransitionTime: first}
	for name, c := range map[string]struct {
		before     *Holding
		next, want Holding
	}{
		"the first":        {nil, Holding{State: HoldStored, Serial: 7}, Holding{State: HoldStored, Serial: 7}},
		"of another order": {&ended, Holding{State: HoldStored, Serial: 8}, Holding{State: HoldStored, Serial: 8}},
		"the end stands":   {&ended, Holding{State: HoldEnded, Serial: 7, Message: "no token was there", LastTransitionTime: later}, ended},
		"the same state": {
			&Holding{State: HoldStored, Serial: 7, RenewedAt: &first, LastTransitionTime: first},
			Holding{State: HoldStored, Serial: 7, LastTransitionTime: later},
			Holding{State: HoldStored, Serial: 7, RenewedAt: &first, LastTransitionTime: first},
		},
		"revoked, then the deletion fails": {
			&Holding{State: HoldWaiting, Serial: 7, Revoked: true, Message: "now it is deleted"},
			Holding{State: HoldWaiting, Serial: 7, Message: "away"},
			Holding{State: HoldWaiting, Serial: 7, Revoked: true, Message: "away"},
		},
		"revoked, and found deleted": {
			&Holding{State: HoldWaiting, Serial: 7, Revoked: true},
			Holding{State: HoldEnded, Serial: 7, Message: "no token was there", LastTransitionTime: later},
			Holding{State: HoldEnded, Serial: 7, Revoked: true, LastTransitionTime: later},
		},
		"not revoked, and deleted": {
			&Holding{State: HoldWaiting, Serial: 7, Unrevoked: "by hand"},
			Holding{State: HoldEnded, Serial: 7},
			Holding{State: HoldEnded, Serial: 7, Unrevoked: "by hand", Message: "by hand"},
		},
		"revoked at the second try": {
			&Holding{State: HoldWaiting, Serial: 7, Unrevoked: "by hand"},
			Holding{State: HoldWaiting, Serial: 7, Revoked: true},
			Holding{State: HoldWaiting, Serial: 7, Revoked: true},
		},
	} {
		if diff := cmp.Diff(c.want, c.next.Follow(c.before)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}
