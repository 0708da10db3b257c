package controlplane_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/oscarfed/oscarfed/controlplane/federations"
	"github.com/oscarfed/oscarfed/controlplane/identity"
	"github.com/oscarfed/oscarfed/test/await"
)

// TestHistoryNamesTheOwnerForWhatTheAdministratorDid: who made a generation is the
// caller, for a creation, a change and a rollback alike.
func TestHistoryNamesTheOwnerForWhatTheAdministratorDid(t *testing.T) {
	await.InVirtualTime(t, func(t *testing.T) {
		w := newWorld(t)
		alice := identity.Caller{Subject: "alice@example.org"}
		create := send(t, usersBody)
		create.Wait = time.Minute
		if _, err := w.Federations.CreateService(t.Context(), alice, create); err != nil {
			t.Fatal(err)
		}
		change := func(caller identity.Caller, was, is string) {
			t.Helper()
			s := send(t, strings.Replace(body, was, is, 1)).Service
			if _, err := w.Federations.ChangeService(t.Context(), caller, federations.ChangeRequest{Service: s, Wait: time.Minute}); err != nil {
				t.Fatal(err)
			}
		}
		change(admin, "0.5Gi", "1Gi")
		change(alice, "0.5Gi", "2Gi")
		if _, err := w.Federations.Rollback(t.Context(), admin, "grayifyr0", "", 2, federations.ChangeRequest{Wait: time.Minute}); err != nil {
			t.Fatal(err)
		}
		history, err := w.Federations.History(t.Context(), alice, "grayifyr0", "")
		if err != nil {
			t.Fatal(err)
		}
		var by []string
		for _, g := range history {
			by = append(by, g.By)
		}
		if want := []string{identity.Admin, alice.Subject, identity.Admin, alice.Subject}; !slices.Equal(by, want) {
			t.Errorf("made, newest first, by %q; want %q", by, want)
		}
	})
}
