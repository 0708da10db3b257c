package openid_test

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/oscarfed/oscarfed/syncer/token"
	"github.com/oscarfed/oscarfed/test/await"
	"github.com/oscarfed/oscarfed/test/openid"
)

// holder is a Keeper before a realm, with the token of one user.
type holder struct {
	*token.Keeper
	t     *testing.T
	realm *openid.Realm
	vault *vault
	line  *line
	of    token.Key
	// skew is added to the keeper's clock.
	skew atomic.Int64
}

// vault notes what is kept, in order.
type vault struct {
	token.Memory
	mu  sync.Mutex
	put []token.Stored
}

func (v *vault) Put(ctx context.Context, owner, federation string, k *token.Stored) error {
	err := v.Memory.Put(ctx, owner, federation, k)
	v.mu.Lock()
	defer v.mu.Unlock()
	if err == nil {
		v.put = append(v.put, *k)
	}
	return err
}

// kept are the refresh tokens that were kept, each once, in order.
func (v *vault) kept() []string {
	v.mu.Lock()
	defer v.mu.Unlock()
	var out []string
	for _, k := range v.put {
		if len(out) == 0 || out[len(out)-1] != k.Refresh {
			out = append(out, k.Refresh)
		}
	}
	return out
}

// line is the way to the provider. It counts exchanges, and loses answers when it is
// told to.
type line struct {
	*http.Transport
	exchanges atomic.Int64
	cut       atomic.Bool
}

func (l *line) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := l.Transport.RoundTrip(r)
	if !strings.HasSuffix(r.URL.Path, "/token") {
		return resp, err
	}
	l.exchanges.Add(1)
	if err == nil && l.cut.Load() {
		_ = resp.Body.Close()
		return nil, errors.New("the line was cut before the answer came")
	}
	return resp, err
}

// invalidGrant is all that the provider says of a refresh token that it does not take.
const invalidGrant = "does not accept the refresh token any more: grant request is invalid"

// hold gives a keeper the token of a login, for a federation that the test names.
func hold(t *testing.T, as openid.Client) (*holder, openid.Tokens) {
	t.Helper()
	subject := "user of " + t.Name()
	h := &holder{t: t, realm: provider.Realm(t, openid.Science), vault: &vault{}, line: &line{Transport: &http.Transport{}}, of: token.Key{Owner: subject, Federation: t.Name()}}
	t.Cleanup(h.line.CloseIdleConnections)
	h.realm.User(subject, map[string]any{"group_membership": []string{"physics"}})
	login := h.realm.Login(subject, as)
	now := func() time.Time { return time.Now().Add(time.Duration(h.skew.Load())) }
	issuers, err := token.NewIssuers([]token.Issuer{{URL: h.realm.Issuer(), ClientID: as.ID, Secret: as.Secret}}, h.line, now)
	if err != nil {
		t.Fatal(err)
	}
	h.Keeper = token.NewKeeper(token.Config{
		Vault: h.vault, Issuers: issuers, Instance: "one", Now: now, Logger: slog.New(slog.DiscardHandler),
		Report: func(context.Context, token.Reading) (func(string), error) { return func(string) {}, nil },
	})
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), await.Limit)
		defer cancel()
		h.Close(ctx)
	})
	h.give(1, login.Refresh)
	return h, login
}

func (h *holder) give(serial int64, refresh string) {
	h.t.Helper()
	if err := h.Hold(h.t.Context(), h.of, token.Given{Serial: serial, Refresh: refresh, Issuer: h.realm.Issuer(), GivenAt: time.Now()}); err != nil {
		h.t.Fatal(err)
	}
}

// pass moves the keeper's clock beyond the life of an access token.
func (h *holder) pass() { h.skew.Add(int64(time.Hour)) }

// access gets a token, which is its owner's and good.
func (h *holder) access() string {
	h.t.Helper()
	got, err := h.Access(h.t.Context(), h.of, 1)
	if err != nil {
		h.t.Fatal(err)
	}
	if subject, _, err := h.realm.Check(h.t.Context(), got.Token); err != nil || subject != h.of.Owner {
		h.t.Errorf("an access token of %q, %v", subject, err)
	}
	return got.Token
}

// lost checks that the token is lost, and why.
func (h *holder) lost(serial int64, why string) {
	h.t.Helper()
	_, err := h.Access(h.t.Context(), h.of, serial)
	if lost, ok := errors.AsType[*token.LostError](err); !ok || !strings.Contains(lost.Message, why) {
		h.t.Errorf("want it lost with %q: %v", why, err)
	}
	if _, err := h.vault.Get(h.t.Context(), h.of.Owner, h.of.Federation); !errors.Is(err, token.ErrNone) {
		h.t.Errorf("a token that is good for nothing is kept: %v", err)
	}
}

// In each life of the access token all that ask for it cost one exchange. What the provider
// gave in place of the refresh token is kept, and it is what is used the next time.
func TestRotatedTokensAreKeptAndUsedOnce(t *testing.T) {
	for name, as := range map[string]openid.Client{"public": openid.Public, "confidential": openid.Confidential, "steady": openid.Steady} {
		t.Run(name, func(t *testing.T) {
			h, login := hold(t, as)
			tokens := map[string]bool{login.Access: true}
			for life := int64(1); life <= 3; life++ {
				var wg sync.WaitGroup
				for range 1000 {
					wg.Go(func() {
						if _, err := h.Access(t.Context(), h.of, 1); err != nil {
							t.Error(err)
						}
					})
				}
				wg.Wait()
				tokens[h.access()] = true
				if n := h.line.exchanges.Load(); n != life {
					t.Errorf("%d exchanges in %d lives", n, life)
				}
				h.pass()
			}
			want := 4
			if as == openid.Steady {
				want = 1
			}
			if kept := h.vault.kept(); len(kept) != want || kept[0] != login.Refresh || len(tokens) != 4 {
				t.Errorf("%d refresh tokens were kept, want %d; %d access tokens", len(kept), want, len(tokens))
			}
			kept, err := h.vault.Get(t.Context(), h.of.Owner, h.of.Federation)
			if err != nil || kept.BegunBy != "" || kept.RenewedAt.IsZero() != (as == openid.Steady) {
				t.Errorf("begun by %q, renewed at %s, %v", kept.BegunBy, kept.RenewedAt, err)
			}
		})
	}
}

// Somebody else has used the token that we keep: the provider ends the grant when we
// do, and all that was given for it.
func TestAUsedTokenIsTheEndOfTheGrant(t *testing.T) {
	h, login := hold(t, openid.Public)
	h.access()
	h.pass()
	kept, err := h.vault.Get(t.Context(), h.of.Owner, h.of.Federation)
	if err != nil {
		t.Fatal(err)
	}
	stolen := h.realm.Refresh(kept.Refresh, openid.Public)
	h.lost(1, invalidGrant)
	if _, _, err := h.realm.Check(t.Context(), stolen.Access); err == nil {
		t.Error("what was given for the stolen token is still good")
	}
	if _, _, err := h.realm.Check(t.Context(), login.Access); err == nil {
		t.Error("the grant lives")
	}
	calls := h.line.exchanges.Load()
	h.pass()
	h.lost(1, invalidGrant)
	if n := h.line.exchanges.Load(); n != calls {
		t.Error("a lost token is tried again")
	}
	h.give(2, h.realm.Login(h.of.Owner, openid.Public).Refresh)
	if _, err := h.Access(t.Context(), h.of, 2); err != nil {
		t.Errorf("another token does not heal it: %v", err)
	}
}

// The provider has given another refresh token, and its answer never came. The next
// exchange is a reuse, and says what has happened.
func TestALostAnswerIsALostToken(t *testing.T) {
	h, _ := hold(t, openid.Public)
	h.line.cut.Store(true)
	if _, err := h.Access(t.Context(), h.of, 1); err == nil {
		t.Fatal("a token came over a line that is cut")
	}
	h.line.cut.Store(false)
	h.pass()
	h.lost(1, "was never finished")
}

// A token that is not replaced survives that.
func TestALostAnswerOfASteadyTokenIsNothing(t *testing.T) {
	h, _ := hold(t, openid.Steady)
	h.line.cut.Store(true)
	if _, err := h.Access(t.Context(), h.of, 1); err == nil {
		t.Fatal("a token came over a line that is cut")
	}
	h.line.cut.Store(false)
	h.pass()
	h.access()
}

func TestRevocation(t *testing.T) {
	for name, as := range map[string]openid.Client{"public": openid.Public, "confidential": openid.Confidential, "steady": openid.Steady} {
		t.Run(name, func(t *testing.T) {
			h, _ := hold(t, as)
			access := h.access() // what is revoked is what came in place of the first
			last := h.vault.kept()
			var noted token.Revocation
			note := func(_ context.Context, r token.Revocation) error { noted = r; return nil }
			if out, err := h.Revoke(t.Context(), h.of, 1, note); err != nil || !out.Revoked || noted != out {
				t.Fatalf("%+v, noted %+v, %v", out, noted, err)
			}
			if _, _, err := h.realm.Check(t.Context(), access); err == nil {
				t.Error("the grant lives")
			}
			// Given once more it is refused, and revoking it again is no error (RFC 7009 2.2).
			h.give(2, last[len(last)-1])
			if out, err := h.Revoke(t.Context(), h.of, 2, note); err != nil || !out.Revoked {
				t.Errorf("a second time: %+v, %v", out, err)
			}
			h.give(3, last[len(last)-1])
			h.lost(3, invalidGrant)
		})
	}
}

// A client that the provider does not know, or with another secret, is the
// administrator's to mend: no token is lost by it.
func TestAWrongClientLosesNoToken(t *testing.T) {
	for name, as := range map[string]token.Issuer{
		"unknown":      {ClientID: "nobody"},
		"wrong secret": {ClientID: openid.Confidential.ID, Secret: "guess"},
	} {
		t.Run(name, func(t *testing.T) {
			h, login := hold(t, openid.Confidential)
			as.URL = h.realm.Issuer()
			issuers, err := token.NewIssuers([]token.Issuer{as}, h.line, time.Now)
			if err != nil {
				t.Fatal(err)
			}
			kept := &token.Stored{Version: 1, Serial: 1, Refresh: login.Refresh}
			_, err = issuers.Exchange(t.Context(), kept)
			if _, ok := errors.AsType[*token.ConfigError](err); !ok || !strings.Contains(err.Error(), "invalid_client") {
				t.Errorf("got %v", err)
			}
			_, err = issuers.Revoke(t.Context(), kept)
			if _, ok := errors.AsType[*token.ConfigError](err); !ok {
				t.Errorf("got %v", err)
			}
			h.access()
		})
	}
}
