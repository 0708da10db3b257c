package identity_test

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/oscarfed/oscarfed/controlplane/identity"
	"github.com/oscarfed/oscarfed/test/issuer"
	"github.com/oscarfed/oscarfed/test/wire"
)

// inMemory starts an issuer and an authenticator of its users, on a network in memory.
func inMemory(t *testing.T, cfg identity.OIDCConfig) (*identity.OIDC, *issuer.Issuer) {
	t.Helper()
	n := wire.ForTest(t)
	i := issuer.Serve(t, n.Host("issuer").MustListen(t), "")
	cfg.Issuers, cfg.Transport = []string{i.URL}, n.Host("api").Transport(nil)
	return start(t, cfg), i
}

// vouched is an issuer with a physicist whose token was accepted, and what is said of that token
// now.
func vouched(t *testing.T, claims map[string]any) (i *issuer.Issuer, ask func() error) {
	t.Helper()
	o, i := inMemory(t, identity.OIDCConfig{Groups: []string{"physics"}})
	i.User("ann", map[string]any{"group_membership": []string{"physics"}})
	known(t, o, i)
	token := "Bearer " + i.Token("ann", claims)
	ask = func() error {
		_, err := o.Authenticate(request(token))
		return err
	}
	if err := ask(); err != nil {
		t.Fatal(err)
	}
	return i, ask
}

// TestWhoLeftHisGroupIsNotLetInUntilHisTokenExpires, but for 5 minutes at most; the same
// question shows that a grant is revoked.
func TestWhoLeftHisGroupIsNotLetInUntilHisTokenExpires(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		i, ask := vouched(t, nil)
		i.User("ann", nil)
		asked := i.Calls("/userinfo")
		<-time.After(4 * time.Minute)
		if err := ask(); err != nil || i.Calls("/userinfo") != asked {
			t.Errorf("the issuer is asked at every request: %v", err)
		}
		<-time.After(2 * time.Minute)
		if err := ask(); !errors.Is(err, identity.ErrUnauthenticated) {
			t.Errorf("after 6 minutes: %v", err)
		}
		i.User("ann", map[string]any{"group_membership": []string{"physics"}})
		if err := ask(); err != nil {
			t.Errorf("back in the group: %v", err)
		}
	})
}

// TestAnIssuerThatIsAwayIsBelievedForAnHour and is not asked at each request meanwhile.
func TestAnIssuerThatIsAwayIsBelievedForAnHour(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		i, ask := vouched(t, map[string]any{"exp": time.Now().Add(3 * time.Hour).Unix()})
		i.Answer(http.StatusBadGateway)
		<-time.After(6 * time.Minute)
		asked := i.Calls("/userinfo")
		for range 20 {
			if err := ask(); err != nil {
				t.Fatalf("after 6 minutes: %v", err)
			}
		}
		if n := i.Calls("/userinfo") - asked; n != 1 {
			t.Errorf("it was asked %d times", n)
		}
		<-time.After(53 * time.Minute)
		if err := ask(); err != nil {
			t.Errorf("after 59 minutes: %v", err)
		}
		<-time.After(2 * time.Minute)
		if err := ask(); err == nil || errors.Is(err, identity.ErrUnauthenticated) {
			t.Errorf("after 61 minutes: %v; want an error that does not blame the caller", err)
		}
		i.Answer(0)
		<-time.After(time.Minute)
		if err := ask(); err != nil {
			t.Errorf("the issuer is back: %v", err)
		}
	})
}

// TestATokenIsNeverBelievedPastItsExpiry although the issuer cannot be asked.
func TestATokenIsNeverBelievedPastItsExpiry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		i, ask := vouched(t, map[string]any{"exp": time.Now().Add(20 * time.Minute).Unix()})
		i.Answer(http.StatusBadGateway)
		<-time.After(19 * time.Minute)
		if err := ask(); err != nil {
			t.Errorf("before: %v", err)
		}
		<-time.After(2 * time.Minute)
		if err := ask(); !errors.Is(err, identity.ErrUnauthenticated) {
			t.Errorf("after: %v", err)
		}
	})
}

// TestAnIssuerThatHangsDoesNotHoldUpWhoIsKnown: what it says in the end counts.
func TestAnIssuerThatHangsDoesNotHoldUpWhoIsKnown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		i, ask := vouched(t, nil)
		i.User("ann", nil)
		release := i.Hang()
		defer release()
		<-time.After(6 * time.Minute)
		if err := ask(); err != nil {
			t.Errorf("while it hangs: %v", err)
		}
		release()
		for late := time.Now().Add(2 * time.Minute); ; <-time.After(time.Second) {
			if err := ask(); errors.Is(err, identity.ErrUnauthenticated) {
				return
			}
			if time.Now().After(late) {
				t.Fatal("she is let in for ever")
			}
		}
	})
}

// TestABadSignatureAsksTheIssuerNothing: who makes up tokens costs it no request, and who
// makes up key ids some.
func TestABadSignatureAsksTheIssuerNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o, i := inMemory(t, identity.OIDCConfig{})
		known(t, o, i)
		good := i.Token("ann", nil)
		if _, err := o.Authenticate(request("Bearer " + good)); err != nil {
			t.Fatal(err)
		}
		asked := i.Calls("/keys") + i.Calls("/userinfo")
		parts := strings.Split(good, ".")
		for n := range 300 {
			other := strings.Split(i.Token(fmt.Sprint("eve", n), nil), ".")
			if _, err := o.Authenticate(request("Bearer " + other[0] + "." + other[1] + "." + parts[2])); !errors.Is(err, identity.ErrUnauthenticated) {
				t.Fatal(err)
			}
		}
		if n := i.Calls("/keys") + i.Calls("/userinfo") - asked; n != 0 {
			t.Errorf("300 tokens with a wrong signature made %d requests to the issuer", n)
		}
	})
}
