package controlplane_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/oscarfed/oscarfed/controlplane"
	"github.com/oscarfed/oscarfed/controlplane/fault"
	"github.com/oscarfed/oscarfed/controlplane/federations"
	"github.com/oscarfed/oscarfed/controlplane/identity"
	"github.com/oscarfed/oscarfed/controlplane/request"
	"github.com/oscarfed/oscarfed/test/await"
)

// The token of a service is good for that service alone, for as long as it lives, and
// gives no right to read or change anything.
func TestTheTokenOfAService(t *testing.T) {
	await.InVirtualTime(t, func(t *testing.T) {
		w := newWorld(t)
		if _, err := w.create(); err != nil {
			t.Fatal(err)
		}
		s, _, err := w.Federations.Service(t.Context(), admin, "grayifyr0", "")
		if err != nil {
			t.Fatal(err)
		}
		caller, err := w.Tokens.ServiceCaller(t.Context(), "grayifyr0", s.Token)
		if err != nil || caller.Service == "" || caller.Subject != "" || caller.Administrator {
			t.Fatalf("%+v, %v", caller, err)
		}
		if caller.MayChange("") || caller.MayRead(s.Owner, "public", nil) || caller.InGroup("") {
			t.Error("it opens other doors")
		}
		own, err := w.Federations.Replicas(t.Context(), caller, "grayifyr0", "")
		if err != nil || own.Members[own.Self].UID != caller.Service || own.RefreshToken != nil {
			t.Errorf("it sees %+v, %v", own, err)
		}
		for _, at := range [][2]string{{"grayifyr0", "b"}, {"grayifyr1", ""}, {"nothing", ""}} {
			if v, err := w.Federations.Replicas(t.Context(), caller, at[0], at[1]); err == nil || codeOf(t, err) != fault.CodeUnauthenticated {
				t.Errorf("by another's token, %s on %q: %+v, %v", at[0], at[1], v, err)
			}
		}
		refused := func(when, service, token string) {
			t.Helper()
			if _, err := w.Tokens.ServiceCaller(t.Context(), service, token); !errors.Is(err, identity.ErrUnauthenticated) {
				t.Errorf("%s: %v", when, err)
			}
		}
		refused("another service", "grayifyr1", s.Token)
		refused("no such service", "nothing", s.Token)
		refused("another token", "grayifyr0", strings.Repeat("0", 64))
		refused("no such service, another token", "nothing", strings.Repeat("0", 64))
		if _, err := w.Federations.DeleteService(t.Context(), admin, "grayifyr0", federations.DeleteOptions{Wait: time.Minute}); err != nil {
			t.Fatal(err)
		}
		refused("after its life", "grayifyr0", s.Token)
		if _, err := w.create(); err != nil {
			t.Fatal(err)
		}
		refused("in another life", "grayifyr0", s.Token)
	})
}

// TestARepeatedRotationMakesOneToken, also where the first one is carried out late: who has repeated it has the token.
func TestARepeatedRotationMakesOneToken(t *testing.T) {
	await.InVirtualTime(t, func(t *testing.T) {
		w := newWorld(t)
		w.mustCreate()
		other := w.second()
		before := w.tokenOf("grayifyr0")
		if res, err := w.Federations.RotateToken(t.Context(), admin, "grayifyr0", "", "", keyed("POST", "k", "")); err != nil || res.Replayed {
			t.Fatal(res, err)
		}
		token := w.tokenOf("grayifyr0")
		for _, cp := range []*controlplane.ControlPlane{w.ControlPlane, other} {
			if res, err := cp.Federations.RotateToken(t.Context(), admin, "grayifyr0", "", "", keyed("POST", "k", "")); err != nil || !res.Replayed {
				t.Error(res, err)
			}
		}
		if now := w.tokenOf("grayifyr0"); now != token || token == before {
			t.Error("the token that the first caller was given is good no more")
		}
		if res, err := other.Federations.RotateToken(t.Context(), admin, "grayifyr0", "", "", request.Repeat{}); err != nil || res.Replayed || w.tokenOf("grayifyr0") == token {
			t.Error("without a key there is no other token", err)
		}
	})
}
