package controlplane_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/oscarfed/oscarfed/controlplane/fault"
	"github.com/oscarfed/oscarfed/controlplane/federations"
	"github.com/oscarfed/oscarfed/controlplane/identity"
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
