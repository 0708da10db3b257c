package token_test

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/oscarfed/oscarfed/syncer/token"
	"github.com/oscarfed/oscarfed/test/issuer"
	"github.com/oscarfed/oscarfed/test/wire"
)

// While an issuer does not answer, one request at a time finds out whether it does again, and all others end at once:
// who looks after many tokens gets to those of other issuers. Once it answers, all tokens are exchanged again.
func TestAnIssuerThatDoesNotAnswerHoldsUpOneExchange(t *testing.T) {
	t.Parallel()
	for name, of := range map[string]func(context.Context, *token.Issuers, *token.Stored) error{
		"exchanges": func(ctx context.Context, s *token.Issuers, k *token.Stored) error {
			_, err := s.Exchange(ctx, k)
			return err
		},
		"revocations": func(ctx context.Context, s *token.Issuers, k *token.Stored) error {
			_, err := s.Revoke(ctx, k)
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				n := wire.ForTest(t)
				quiet, other := issuer.Serve(t, n.Host("quiet").MustListen(t), ""), issuer.Serve(t, n.Host("other").MustListen(t), "")
				s, err := token.NewIssuers([]token.Issuer{{URL: quiet.URL}, {URL: other.URL}}, n.Host("syncer").Transport(nil), time.Now)
				if err != nil {
					t.Fatal(err)
				}
				defer s.Close()
				// sixteen calls at the same time: how many of them end at once, and with which errors.
				sixteen := func(at *issuer.Issuer) (atOnce int, errs []error) {
					var wg sync.WaitGroup
					var mu sync.Mutex
					for range 16 {
						kept := &token.Stored{Refresh: at.RefreshToken(user), Issuer: at.URL, ClientID: "portal"}
						wg.Go(func() {
							began := time.Now()
							err := of(t.Context(), s, kept)
							mu.Lock()
							defer mu.Unlock()
							if time.Since(began) == 0 {
								atOnce++
							}
							if err != nil {
								errs = append(errs, err)
							}
						})
					}
					wg.Wait()
					return atOnce, errs
				}
				heal := n.Cut("syncer", "quiet")
				if _, errs := sixteen(quiet); len(errs) != 16 {
					t.Fatalf("of 16 calls without an answer %d failed", len(errs))
				}
				for range 5 {
					<-time.After(20 * time.Second)
					atOnce, errs := sixteen(quiet)
					if atOnce != 15 || len(errs) != 16 {
						t.Errorf("%d of 16 ended at once, %d failed", atOnce, len(errs))
					}
					for _, err := range errs {
						if !strings.Contains(err.Error(), quiet.URL) {
							t.Errorf("it does not say which issuer: %v", err)
						}
					}
					if _, errs := sixteen(other); len(errs) != 0 {
						t.Errorf("the other issuer: %v", errs)
					}
				}
				heal()
				<-time.After(20 * time.Second)
				sixteen(quiet)
				if _, errs := sixteen(quiet); len(errs) != 0 {
					t.Errorf("it answers again: %v", errs)
				}
			})
		})
	}
}

// A token that is not used, since its issuer does not answer, is neither marked nor said to be read.
func TestATokenThatIsNotUsedIsNotMarked(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := wire.ForTest(t)
		quiet := issuer.Serve(t, n.Host("quiet").MustListen(t), "")
		s, err := token.NewIssuers([]token.Issuer{{URL: quiet.URL, ClientID: "portal"}}, n.Host("syncer").Transport(nil), time.Now)
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		var read atomic.Int64
		vault := &token.Memory{}
		k := token.NewKeeper(token.Config{Vault: vault, Issuers: s, Instance: "one", Report: func(context.Context, token.Reading) (func(string), error) {
			read.Add(1)
			return func(string) {}, nil
		}})
		n.Cut("syncer", "quiet")
		for i, federation := range []string{"f1", "f2", "f3", "f4", "f5"} {
			of := token.Key{Owner: user, Federation: federation}
			if err := k.Hold(t.Context(), of, token.Given{Serial: 1, Refresh: quiet.RefreshToken(user), Issuer: quiet.URL}); err != nil {
				t.Fatal(err)
			}
			use := func() error { _, err := k.Access(t.Context(), of, 1); return err }
			if i == 4 {
				use = func() error { _, err := k.Revoke(t.Context(), of, 1, noted); return err }
			}
			if err := use(); err == nil {
				t.Errorf("%s: an issuer that does not answer has answered", federation)
			}
			kept, err := vault.Get(t.Context(), user, federation)
			if err != nil || (kept.BegunBy != "") != (i < 3) || read.Load() != int64(min(i+1, 3)) {
				t.Errorf("%s: begun by %q, %d read, %v", federation, kept.BegunBy, read.Load(), err)
			}
		}
	})
}

// An answer that begins and does not go on is none.
func TestAnAnswerWithoutItsEndIsNone(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := wire.ForTest(t)
		l := n.Host("quiet").MustListen(t)
		base := "http://" + l.Addr().String()
		server := &http.Server{ReadHeaderTimeout: time.Minute, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			if r.Method == http.MethodGet {
				_ = json.NewEncoder(w).Encode(map[string]any{"issuer": base, "jwks_uri": base + "/keys", "token_endpoint": base + "/token"})
				return
			}
			_, _ = w.Write([]byte(`{"access_token":"`))
			_ = http.NewResponseController(w).Flush()
			<-r.Context().Done()
		})}
		served := make(chan error, 1)
		go func() { served <- server.Serve(l) }()
		s, err := token.NewIssuers([]token.Issuer{{URL: base, ClientID: "portal"}}, n.Host("syncer").Transport(nil), time.Now)
		if err != nil {
			t.Fatal(err)
		}
		for try := range 5 {
			began := time.Now()
			_, err := s.Exchange(t.Context(), &token.Stored{Refresh: secretToken, Issuer: base})
			if asked := time.Since(began) > 0; err == nil || asked != (try < 3) {
				t.Errorf("try %d: asked %t, %v", try, asked, err)
			}
		}
		s.Close()
		if err := errors.Join(server.Close(), <-served); !errors.Is(err, http.ErrServerClosed) {
			t.Error(err)
		}
	})
}
