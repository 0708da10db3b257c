package controlplane_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/oscarfed/oscarfed/api/oscar"
	"github.com/oscarfed/oscarfed/controlplane"
	"github.com/oscarfed/oscarfed/controlplane/federations"
	"github.com/oscarfed/oscarfed/controlplane/identity"
	"github.com/oscarfed/oscarfed/controlplane/view"
	"github.com/oscarfed/oscarfed/test/await"
)

// TestTheRefreshTokenOfAPutIsKeptThoughItsCallerGoes: the callers go, as a client does
// after 20 s, while their change is committed and waited for. No wait ends by itself.
func TestTheRefreshTokenOfAPutIsKeptThoughItsCallerGoes(t *testing.T) {
	await.InVirtualTime(t, func(t *testing.T) {
		w := newWorld(t, func(c *controlplane.Config) { c.PrepareDeadline = time.Hour })
		w.addCluster("d").does(silent)
		user := identity.Caller{Subject: "somebody"}
		body := strings.Replace(body, `"name"`, `"visibility":"public","name"`, 1)
		alone := strings.Replace(body, `"mesh"`, `"none"`, 1)
		if _, err := w.Federations.CreateService(t.Context(), user, send(t, alone)); err != nil {
			t.Fatal(err)
		}
		w.clusters["c"].does(silent)

		// giveUp sends a definition and goes once it was accepted.
		giveUp := func(definition, token string, accepted func(*view.Replicas) bool) {
			t.Helper()
			s, violations := oscar.ParseService([]byte(strings.Replace(definition, `{`, `{"environment":{"secrets":{"refresh_token":"`+token+`"}},`, 1)))
			if len(violations) > 0 {
				t.Fatal(violations)
			}
			ctx, leave := context.WithCancel(t.Context())
			defer leave()
			left := make(chan error, 1)
			go func() {
				_, err := w.Federations.ChangeService(ctx, user, federations.ChangeRequest{Service: s, Wait: time.Hour})
				left <- err
			}()
			w.eventually(func() bool {
				view, err := w.Federations.Replicas(t.Context(), user, "grayifyr0", "")
				return err == nil && accepted(view)
			})
			leave()
			if err := <-left; err == nil {
				t.Error("it has not waited")
			}
		}
		given := func() time.Time {
			t.Helper()
			status, err := w.Tokens.RefreshToken(t.Context(), user, "grayifyr0", "")
			if err != nil {
				t.Fatal(err)
			}
			if status.Token.State != view.TokenStoring {
				t.Fatalf("the token is %+v", status.Token)
			}
			shown, err := w.Federations.Get(t.Context(), user, status.UID)
			if err != nil || shown.RefreshToken == nil || shown.RefreshToken.State != status.Token.State || !shown.RefreshToken.GivenAt.Equal(status.Token.GivenAt.Time) {
				t.Errorf("its owner is shown %+v, %v", shown, err)
			}
			shown, err = w.Federations.Get(t.Context(), identity.Caller{Subject: "reader"}, status.UID)
			if err != nil || shown.RefreshToken != nil {
				t.Errorf("a reader is shown %+v, %v", shown, err)
			}
			return status.Token.GivenAt.Time
		}

		mesh := strings.Replace(body, "0.5Gi", "1Gi", 1)
		giveUp(mesh, "first", func(v *view.Replicas) bool { return v.Generation == 2 })
		first := given()

		fourth := strings.Replace(mesh, `"members":[`, `"members":[{"type":"oscar","cluster_id":"d","service_name":"grayifyr3"},`, 1)
		w.clusters["c"].does(yes)
		giveUp(fourth, "second", func(*view.Replicas) bool { return len(w.keys("/oscarfed/v1/c/d/desired/services/")) > 0 })
		if second := given(); !second.After(first) {
			t.Errorf("the token that came with an addition is of %s, the one before of %s", second, first)
		}
	})
}

// TestAPutOfTheSameWithAnotherRefreshTokenKeepsIt: nothing else is written.
func TestAPutOfTheSameWithAnotherRefreshTokenKeepsIt(t *testing.T) {
	await.InVirtualTime(t, func(t *testing.T) {
		w := newWorld(t)
		user := identity.Caller{Subject: "somebody"}
		if _, err := w.Federations.CreateService(t.Context(), user, send(t, usersBody)); err != nil {
			t.Fatal(err)
		}
		for _, put := range []struct {
			definition string
			revisions  int64
		}{
			{usersBody, 0},
			{strings.Replace(usersBody, "a-refresh-token", "another-one", 1), 1},
		} {
			revision := w.revision()
			if _, err := w.Federations.ChangeService(t.Context(), user, federations.ChangeRequest{Service: send(t, put.definition).Service}); err != nil {
				t.Fatal(err)
			}
			if n := w.revision() - revision; n != put.revisions {
				t.Errorf("it cost %d revisions, want %d", n, put.revisions)
			}
		}
	})
}
