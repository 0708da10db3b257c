package controlplane_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/oscarfed/oscarfed/controlplane/identity"
	"github.com/oscarfed/oscarfed/test/await"
	"github.com/oscarfed/oscarfed/test/issuer"
)

// Users of two issuers with one subject are two people: the first one keeps it, from
// whichever instance it is asked, and also when both come at once.
func TestASubjectIsOfOneIssuer(t *testing.T) {
	await.InVirtualTime(t, func(t *testing.T) {
		w := newWorld(t)
		for _, subject := range []string{"somebody", "a/b@egi.eu", strings.Repeat("ü/", 85)} {
			var mu sync.Mutex
			var won []string
			var group sync.WaitGroup
			for _, of := range []string{"https://one.example.org", "https://two.example.org", "https://one.example.org", "https://two.example.org"} {
				group.Go(func() {
					err := w.Federations.BindOwner(t.Context(), subject, of)
					mu.Lock()
					defer mu.Unlock()
					if err == nil {
						won = append(won, of)
					} else if !errors.Is(err, identity.ErrUnauthenticated) {
						t.Error(err)
					}
				})
			}
			group.Wait()
			if len(won) != 2 || won[0] != won[1] {
				t.Errorf("%q is of %v", subject, won)
			}
		}
	})
}

// The door asks: a user of the second issuer, with a good token, is not let in under a
// subject of the first one's, and is under his own.
func TestAnotherIssuersUserIsNotLetInUnderTheSameSubject(t *testing.T) {
	await.InVirtualTime(t, func(t *testing.T) {
		w := newWorld(t)
		one, two := issuer.Serve(t, w.net.Host("one").MustListen(t), "/one"), issuer.Serve(t, w.net.Host("two").MustListen(t), "/two")
		door, err := identity.NewOIDC(identity.OIDCConfig{Issuers: []string{one.URL, two.URL}, Owners: w.Federations, Transport: w.net.Host("controlplane").Transport(nil)})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		var run sync.WaitGroup
		run.Go(func() { _ = door.Run(ctx) }) // it ends with ctx, and says so
		t.Cleanup(func() { cancel(); run.Wait() })
		enter := func(token string) error {
			r := httptest.NewRequest(http.MethodGet, "/system/info", nil)
			r.Header.Set("Authorization", "Bearer "+token)
			_, err := door.Authenticate(r)
			return err
		}
		await := func(i *issuer.Issuer, subject string) {
			t.Helper()
			limit := time.After(time.Minute)
			for enter(i.Token(subject, nil)) != nil {
				select {
				case <-time.After(10 * time.Millisecond):
				case <-limit:
					t.Fatal("an issuer was never known")
				}
			}
		}
		await(one, "alice")
		await(two, "bob")
		if err := enter(two.Token("alice", nil)); !errors.Is(err, identity.ErrUnauthenticated) {
			t.Errorf("alice of the second issuer: %v", err)
		}
		if err := enter(one.Token("alice", nil)); err != nil {
			t.Errorf("alice of the first issuer, with another token: %v", err)
		}
	})
}
