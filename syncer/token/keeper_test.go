package token_test

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

	"go.uber.org/goleak"

	"github.com/oscarfed/oscarfed/syncer/token"
	"github.com/oscarfed/oscarfed/test/issuer"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("net/http.(*persistConn).readLoop"), goleak.IgnoreAnyFunction("net/http.(*persistConn).writeLoop"))
}

const user = "alice@science"

var of = token.Key{Owner: user, Federation: "f1"}

// bench is one issuer with a vault that several keepers may share.
type bench struct {
	t      *testing.T
	issuer *issuer.Issuer
	vault  *shaky
	// skew is added to the clock of the keepers.
	skew atomic.Int64
	mu   sync.Mutex
	said []string
}

// shaky is a vault that fails when it is told to.
type shaky struct {
	token.Memory
	mu sync.Mutex
	// putFails is asked before each put; nil lets all through.
	putFails func(k *token.Stored) error
	// unreadable is why what is kept cannot be read, until it is replaced or deleted.
	unreadable error
}

func (s *shaky) Get(ctx context.Context, owner, federation string) (*token.Stored, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.unreadable != nil {
		return nil, s.unreadable
	}
	return s.Memory.Get(ctx, owner, federation)
}

func (s *shaky) Delete(ctx context.Context, owner, federation string, version int64) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.unreadable == nil:
		return s.Memory.Delete(ctx, owner, federation, version)
	case version != 0 || errors.Is(s.unreadable, token.ErrNewer):
		return s.unreadable
	}
	s.unreadable = nil
	return nil
}

func (s *shaky) Put(ctx context.Context, owner, federation string, k *token.Stored) error {
	s.mu.Lock()
	fails := s.putFails
	if k.Version == 1 {
		s.unreadable = nil
	}
	s.mu.Unlock()
	if fails != nil {
		if err := fails(k); err != nil {
			return err
		}
	}
	return s.Memory.Put(ctx, owner, federation, k)
}

func (s *shaky) fail(fn func(k *token.Stored) error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.putFails = fn
}

func newBench(t *testing.T, g issuer.Grants) *bench {
	t.Helper()
	b := &bench{t: t, issuer: issuer.New(t, "/realms/science"), vault: &shaky{}}
	b.issuer.Grant(g)
	return b
}

func (b *bench) now() time.Time { return time.Now().Add(time.Duration(b.skew.Load())) }

// pass moves the clock of the keepers.
func (b *bench) pass(d time.Duration) { b.skew.Add(int64(d)) }

func (b *bench) keeper(instance string, mutate ...func(*token.Config)) *token.Keeper {
	b.t.Helper()
	transport := &http.Transport{}
	b.t.Cleanup(transport.CloseIdleConnections)
	issuers, err := token.NewIssuers([]token.Issuer{{URL: b.issuer.URL, ClientID: "oscarfed", Secret: "s3cret"}}, transport, b.now)
	if err != nil {
		b.t.Fatal(err)
	}
	cfg := token.Config{
		Vault: b.vault, Issuers: issuers, Instance: instance, Now: b.now, Logger: slog.New(slog.DiscardHandler),
		Report: func(context.Context, token.Reading) (func(string), error) {
			return func(outcome string) {
				b.mu.Lock()
				defer b.mu.Unlock()
				b.said = append(b.said, outcome)
			}, nil
		},
	}
	for _, m := range mutate {
		m(&cfg)
	}
	k := token.NewKeeper(cfg)
	b.t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(b.t.Context()), time.Minute)
		defer cancel()
		k.Close(ctx)
	})
	return k
}

// hold gives a keeper a token of the user's.
func (b *bench) hold(k *token.Keeper, serial int64) string {
	b.t.Helper()
	refresh := b.issuer.RefreshToken(user)
	if err := k.Hold(b.t.Context(), of, token.Given{Serial: serial, Refresh: refresh, Issuer: b.issuer.URL, GivenAt: b.now()}); err != nil {
		b.t.Fatal(err)
	}
	return refresh
}

func (b *bench) exchanges(want, reuses int) {
	b.t.Helper()
	if n, again := b.issuer.Exchanges(); n != want || again != reuses {
		b.t.Errorf("%d exchanges and %d uses of a used token, want %d and %d", n, again, want, reuses)
	}
}

var rotating = issuer.Grants{Rotate: true, ClientID: "oscarfed", Secret: "s3cret"}

// Ten thousand who ask at the same time, in each of three lives of the access token,
// cost three exchanges, and no token is used twice.
func TestOneExchangeForEachLifeOfTheAccessToken(t *testing.T) {
	t.Parallel()
	b := newBench(t, rotating)
	k := b.keeper("one")
	b.hold(k, 1)
	seen := map[string]bool{}
	for life := 1; life <= 3; life++ {
		tokens := make([]string, 10_000)
		var wg sync.WaitGroup
		for i := range tokens {
			wg.Go(func() {
				access, err := k.Access(t.Context(), of, 1)
				if err != nil {
					t.Error(err)
				}
				tokens[i] = access.Token
			})
		}
		wg.Wait()
		for _, one := range tokens {
			if one != tokens[0] || one == "" {
				t.Fatal("not everybody got the same token")
			}
		}
		seen[tokens[0]] = true
		if len(seen) != life {
			t.Errorf("life %d has the token of another", life)
		}
		b.exchanges(life, 0)
		b.pass(time.Hour)
	}
	kept, err := b.vault.Get(t.Context(), user, "f1")
	if err != nil || kept.Serial != 1 || kept.BegunBy != "" || kept.RenewedAt.IsZero() {
		t.Errorf("kept: serial %d, begun by %q, renewed at %v, error %v", kept.Serial, kept.BegunBy, kept.RenewedAt, err)
	}
}

// The access token is given to nobody before the refresh token that came with it is
// stored, however long that takes.
func TestTheRenewedTokenIsStoredFirst(t *testing.T) {
	t.Parallel()
	b := newBench(t, rotating)
	k := b.keeper("one")
	b.hold(k, 1)
	var failed atomic.Int64
	given := make(chan struct{})
	var early atomic.Bool
	b.vault.fail(func(kept *token.Stored) error {
		if kept.BegunBy != "" {
			return nil // the mark
		}
		select {
		case <-given:
			early.Store(true)
		default:
		}
		if failed.Add(1) < 4 {
			return errors.New("the API server is away")
		}
		return nil
	})
	if _, err := k.Access(t.Context(), of, 1); err != nil {
		t.Fatal(err)
	}
	close(given)
	if early.Load() || failed.Load() != 4 {
		t.Errorf("given out before it was stored: %t; %d tries", early.Load(), failed.Load())
	}
	b.exchanges(1, 0)
	b.pass(time.Hour)
	if _, err := k.Access(t.Context(), of, 1); err != nil {
		t.Errorf("what was stored is not what the issuer gave: %v", err)
	}
	b.exchanges(2, 0)
}

// Nothing is exchanged when the place where it would have to be stored takes nothing.
func TestAVaultThatTakesNothingCostsNoToken(t *testing.T) {
	t.Parallel()
	b := newBench(t, rotating)
	k := b.keeper("one")
	b.hold(k, 1)
	b.vault.fail(func(*token.Stored) error { return errors.New("full") })
	if _, err := k.Access(t.Context(), of, 1); err == nil {
		t.Error("a token was given")
	}
	b.exchanges(0, 0)
	b.vault.fail(nil)
	b.pass(time.Hour)
	if _, err := k.Access(t.Context(), of, 1); err != nil {
		t.Error(err)
	}
	b.exchanges(1, 0)
}

// An old pod and its successor share a vault: neither uses a token that the other has
// used, and the family lives.
func TestTwoHoldersNeverUseOneTokenTwice(t *testing.T) {
	t.Parallel()
	b := newBench(t, rotating)
	one, two := b.keeper("one"), b.keeper("two")
	b.hold(one, 1)
	for range 20 {
		var wg sync.WaitGroup
		for _, k := range []*token.Keeper{one, two} {
			wg.Go(func() {
				if _, err := k.Access(t.Context(), of, 1); err != nil {
					if _, lost := errors.AsType[*token.LostError](err); lost {
						t.Error(err)
					}
				}
			})
		}
		wg.Wait()
		b.pass(time.Hour)
	}
	if _, reuses := b.issuer.Exchanges(); reuses != 0 {
		t.Errorf("%d uses of a used token", reuses)
	}
}

// A holder died with its mark set. While it may still be at work the next one waits;
// then it tries. Whether the issuer had answered decides.
func TestAHolderDiedWithinAnExchange(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		rotate, answered bool
		lost             string
	}{
		"before the issuer answered":           {true, false, ""},
		"after an issuer that rotates":         {true, true, "never finished"},
		"after an issuer that does not rotate": {false, true, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, issuer.Grants{Rotate: c.rotate})
			first := b.keeper("first")
			b.hold(first, 1)
			// It dies: what it would store is never stored.
			dead := make(chan struct{})
			b.vault.fail(func(k *token.Stored) error {
				if k.BegunBy == "first" {
					return nil
				}
				close(dead)
				<-t.Context().Done()
				return nil
			})
			if c.answered {
				go func() { _, _ = first.Access(t.Context(), of, 1) }()
				<-dead
			} else {
				kept, err := b.vault.Get(t.Context(), user, "f1")
				if err != nil {
					t.Fatal(err)
				}
				kept.Version++
				kept.BegunBy, kept.BegunAt = "first", b.now()
				if err := b.vault.Put(t.Context(), user, "f1", kept); err != nil {
					t.Fatal(err)
				}
			}
			b.vault.fail(nil)
			next := b.keeper("next")
			if _, err := next.Access(t.Context(), of, 1); err == nil || !strings.Contains(err.Error(), "another holder") {
				t.Errorf("the mark is not respected: %v", err)
			}
			b.pass(10 * time.Minute)
			_, err := next.Access(t.Context(), of, 1)
			lost, isLost := errors.AsType[*token.LostError](err)
			switch {
			case c.lost == "" && err != nil:
				t.Error(err)
			case c.lost != "" && (!isLost || !strings.Contains(lost.Message, c.lost)):
				t.Errorf("want it lost, with %q: %v", c.lost, err)
			}
		})
	}
}

// What the issuer refuses for good is not tried again; another token heals it.
func TestALostTokenIsNotTriedAgain(t *testing.T) {
	t.Parallel()
	b := newBench(t, rotating)
	k := b.keeper("one")
	b.issuer.RevokeNow(b.hold(k, 7))
	for range 5 {
		_, err := k.Access(t.Context(), of, 7)
		if lost, ok := errors.AsType[*token.LostError](err); !ok || lost.Serial != 7 || strings.Contains(err.Error(), "refresh-") {
			t.Errorf("got %v", err)
		}
		b.pass(time.Hour)
	}
	if n := b.issuer.Calls("/token"); n != 1 {
		t.Errorf("the issuer was asked %d times", n)
	}
	if _, err := b.vault.Get(t.Context(), user, "f1"); !errors.Is(err, token.ErrNone) {
		t.Errorf("a token that is good for nothing is kept: %v", err)
	}
	b.hold(k, 8)
	if _, err := k.Access(t.Context(), of, 8); err != nil {
		t.Error(err)
	}
}

// An issuer that is down is asked with growing pauses, and the token is not lost.
func TestAnIssuerThatIsDownIsNotHammered(t *testing.T) {
	t.Parallel()
	b := newBench(t, rotating)
	var down atomic.Bool
	down.Store(true)
	g := rotating
	g.Before = func() int {
		if down.Load() {
			return http.StatusServiceUnavailable
		}
		return 0
	}
	b.issuer.Grant(g)
	k := b.keeper("one")
	b.hold(k, 1)
	for range 1000 {
		if _, err := k.Access(t.Context(), of, 1); err == nil {
			t.Fatal("it gave a token")
		}
		b.pass(time.Second)
	}
	// At least half of 1, 2, 4, ... 300 s lie between two tries.
	if n := b.issuer.Calls("/token"); n < 3 || n > 16 {
		t.Errorf("it was asked %d times in 1000 s", n)
	}
	down.Store(false)
	b.pass(time.Hour)
	if _, err := k.Access(t.Context(), of, 1); err != nil {
		t.Error(err)
	}
	b.exchanges(1, 0)
}

func TestATokenOfAnotherUserIsNotUsed(t *testing.T) {
	t.Parallel()
	b := newBench(t, issuer.Grants{})
	k := b.keeper("one")
	err := k.Hold(t.Context(), of, token.Given{Serial: 1, Refresh: b.issuer.RefreshToken("mallory"), Issuer: b.issuer.URL})
	if err != nil {
		t.Fatal(err)
	}
	_, err = k.Access(t.Context(), of, 1)
	if _, lost := errors.AsType[*token.LostError](err); !lost || !strings.Contains(err.Error(), "another user") {
		t.Errorf("got %v", err)
	}
}

// noted is a note of a revocation that succeeds.
func noted(context.Context, token.Revocation) error { return nil }

// No reading of the token goes unreported, and what cannot be reported is not read.
func TestEachReadingIsReportedBefore(t *testing.T) {
	t.Parallel()
	b := newBench(t, rotating)
	var blocked atomic.Bool
	var readings atomic.Int64
	k := b.keeper("one", func(c *token.Config) {
		c.Report = func(_ context.Context, r token.Reading) (func(string), error) {
			if blocked.Load() {
				return nil, errors.New("no session")
			}
			readings.Add(1)
			return func(string) {}, nil
		}
	})
	b.hold(k, 1)
	blocked.Store(true)
	if _, err := k.Access(t.Context(), of, 1); err == nil {
		t.Error("an exchange that nobody knows of")
	}
	b.exchanges(0, 0)
	blocked.Store(false)
	b.pass(time.Hour)
	if _, err := k.Access(t.Context(), of, 1); err != nil {
		t.Fatal(err)
	}
	if _, err := k.Revoke(t.Context(), of, 1, noted); err != nil {
		t.Fatal(err)
	}
	if readings.Load() != 2 {
		t.Errorf("%d readings", readings.Load())
	}
}
