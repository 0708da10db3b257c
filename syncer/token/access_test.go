package token_test

import (
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/oscarfed/oscarfed/syncer/token"
)

// The refresh token that comes with an access token that is too long is stored: else the next try would use the one
// before again, and the issuer would end the login.
func TestALongAccessTokenEndsNoLogin(t *testing.T) {
	t.Parallel()
	b := newBench(t, rotating)
	g := rotating
	g.Change = func(path string, answer map[string]any) {
		if path == "/token" {
			answer["access_token"] = strings.Repeat("x", 20_000)
		}
	}
	b.issuer.Grant(g)
	k := b.keeper("one")
	b.hold(k, 1)
	for range 3 {
		_, err := k.Access(t.Context(), of, 1)
		if err == nil || !strings.Contains(err.Error(), "more than 16384 bytes") {
			t.Errorf("got %v", err)
		}
		b.pass(time.Hour)
	}
	b.exchanges(3, 0)
	b.issuer.Grant(rotating)
	if _, err := k.Access(t.Context(), of, 1); err != nil {
		t.Error(err)
	}
	b.exchanges(4, 0)
}

// Who has an access token of a few seconds asks for the next one token.Slack before its end, and gets another one.
func TestAnAccessTokenIsGivenWhileItCanBeUsed(t *testing.T) {
	t.Parallel()
	for _, life := range []time.Duration{5 * time.Second, 12 * time.Second, 20 * time.Second, 39 * time.Second, time.Minute} {
		t.Run(life.String(), func(t *testing.T) {
			t.Parallel()
			b := newBench(t, rotating)
			g := rotating
			g.Lifetime = life
			b.issuer.Grant(g)
			k := b.keeper("one")
			b.hold(k, 1)
			var has token.Access
			given := 0
			for range 1000 {
				if !b.now().Add(token.Slack).Before(has.Expires) {
					got, err := k.Access(t.Context(), of, 1)
					switch {
					case err != nil && !strings.Contains(err.Error(), "it has to be more than"):
						t.Fatal(err)
					case err == nil:
						given++
						if !b.now().Add(token.Slack).Before(got.Expires) {
							t.Fatalf("given out %s before its end", got.Expires.Sub(b.now()))
						}
						has = got
					}
				}
				b.pass(time.Second)
			}
			if most := 1 + int(1000*time.Second/max(life-token.Slack, time.Second)); given > 0 != (life > token.Slack+time.Second) || given > most {
				t.Errorf("%d were given out, of at most %d", given, most)
			}
			if n := b.issuer.Calls("/token"); given == 0 && n > 16 {
				t.Errorf("it was asked %d times in 1000 s", n)
			}
		})
	}
}

// The user gives another token, and the answer of the write that stores it is lost: the error of the one before is not
// its own.
func TestTheNextTokenHasNotTheErrorOfTheOneBefore(t *testing.T) {
	t.Parallel()
	b := newBench(t, rotating)
	g := rotating
	g.Before = func() int { return http.StatusServiceUnavailable }
	b.issuer.Grant(g)
	k := b.keeper("one")
	b.hold(k, 1)
	for range 5 {
		b.pass(time.Minute)
		if _, err := k.Access(t.Context(), of, 1); err == nil {
			t.Fatal("it gave a token")
		}
	}
	b.issuer.Grant(rotating)
	b.vault.fail(func(kept *token.Stored) error {
		return errors.Join(b.vault.Memory.Put(t.Context(), user, "f1", kept), errors.New("no answer"))
	})
	next := token.Given{Serial: 2, Refresh: b.issuer.RefreshToken(user), Issuer: b.issuer.URL, GivenAt: b.now()}
	if err := k.Hold(t.Context(), of, next); err == nil {
		t.Fatal("the answer is there")
	}
	b.vault.fail(nil)
	if err := k.Hold(t.Context(), of, next); err != nil {
		t.Fatal(err)
	}
	if _, err := k.Access(t.Context(), of, 2); err != nil {
		t.Error(err)
	}
}
