package token_test

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/oscarfed/oscarfed/syncer/token"
	"github.com/oscarfed/oscarfed/test/issuer"
)

// Once the token is gone nobody can tell what came of its revocation: it stays until
// that is noted, and is revoked again then.
func TestATokenIsNotDeletedBeforeItsRevocationIsNoted(t *testing.T) {
	t.Parallel()
	b := newBench(t, rotating)
	k := b.keeper("one")
	refresh := b.hold(k, 1)
	away := errors.New("the store is away")
	if _, err := k.Revoke(t.Context(), of, 1, func(context.Context, token.Revocation) error { return away }); !errors.Is(err, away) {
		t.Errorf("got %v", err)
	}
	if kept, err := b.vault.Get(t.Context(), user, "f1"); err != nil || kept.Refresh != refresh {
		t.Errorf("it is gone: %v", err)
	}
	var told token.Revocation
	if out, err := k.Revoke(t.Context(), of, 1, func(_ context.Context, r token.Revocation) error { told = r; return nil }); err != nil || !out.Revoked || told != out {
		t.Errorf("%+v, noted %+v, %v", out, told, err)
	}
}

func TestDrop(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		grants  issuer.Grants
		revoke  bool
		revoked bool
		says    string
	}{
		"revoked":                   {rotating, true, true, ""},
		"only forgotten":            {rotating, false, false, ""},
		"no endpoint":               {issuer.Grants{NoRevocation: true}, true, false, "by hand"},
		"the client is a wrong one": {issuer.Grants{ClientID: "other"}, true, false, "answered 401"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, c.grants)
			k := b.keeper("one")
			refresh := b.hold(k, 1)
			drop := func() (token.Revocation, error) {
				if !c.revoke {
					return token.Revocation{}, k.Forget(t.Context(), of, 1)
				}
				return k.Revoke(t.Context(), of, 1, noted)
			}
			if out, err := drop(); err != nil || out.Revoked != c.revoked || !strings.Contains(out.Message, c.says) {
				t.Errorf("%+v, %v", out, err)
			}
			if b.issuer.Revoked(refresh) != c.revoked {
				t.Errorf("at the issuer: revoked %t", !c.revoked)
			}
			if _, err := b.vault.Get(t.Context(), user, "f1"); !errors.Is(err, token.ErrNone) {
				t.Errorf("it is still kept: %v", err)
			}
			if _, err := drop(); c.revoke && !errors.Is(err, token.ErrNone) || !c.revoke && err != nil {
				t.Errorf("a second time: %v", err)
			}
		})
	}
}

// What was damaged, or is of a newer version, was told to be replaced, and could not be.
func TestATokenThatCannotBeReadStandsInTheWay(t *testing.T) {
	t.Parallel()
	for name, why := range map[string]error{"damaged": token.ErrDamaged, "newer": token.ErrNewer} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			newer := errors.Is(why, token.ErrNewer)
			b := newBench(t, rotating)
			k := b.keeper("one")
			b.vault.unreadable = why
			if _, err := k.Access(t.Context(), of, 1); !errors.Is(err, why) {
				t.Errorf("its use: %v", err)
			}
			if keeps, err := k.Keeps(t.Context(), of, 1); keeps || newer != errors.Is(err, why) {
				t.Errorf("whether it is there: %v, %v", keeps, err)
			}
			b.hold(k, 2)
			if _, err := k.Access(t.Context(), of, 2); err != nil {
				t.Errorf("what was given in its place: %v", err)
			}

			other := b.keeper("other")
			b.vault.unreadable = why
			if err := other.Forget(t.Context(), of, 3); newer != errors.Is(err, why) || !newer && err != nil {
				t.Errorf("forgotten: %v", err)
			}
			b.vault.unreadable = why
			var told token.Revocation
			out, err := other.Revoke(t.Context(), of, 3, func(_ context.Context, r token.Revocation) error { told = r; return nil })
			switch {
			case newer:
				if !errors.Is(err, why) || told != (token.Revocation{}) {
					t.Errorf("revoked: %+v, %v", told, err)
				}
			case err != nil || out.Revoked || told != out || !strings.Contains(out.Message, "could not be read"):
				t.Errorf("revoked: %+v, noted %+v, %v", out, told, err)
			}
			if newer != (b.vault.unreadable != nil) {
				t.Errorf("left: %v", b.vault.unreadable)
			}
		})
	}
}

// An issuer that cannot be reached keeps the token where it is: it is revoked when it
// can be.
func TestARevocationWaitsForTheIssuer(t *testing.T) {
	t.Parallel()
	b := newBench(t, rotating)
	k := b.keeper("one")
	refresh := b.hold(k, 1)
	b.issuer.Answer(http.StatusBadGateway)
	if _, err := k.Revoke(t.Context(), of, 1, noted); err == nil {
		t.Error("it says that it is done")
	}
	if _, err := b.vault.Get(t.Context(), user, "f1"); err != nil {
		t.Errorf("it is gone: %v", err)
	}
	b.issuer.Answer(0)
	if out, err := k.Revoke(t.Context(), of, 1, noted); err != nil || !out.Revoked || !b.issuer.Revoked(refresh) {
		t.Errorf("%+v, %v", out, err)
	}
}
