package identity_test

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/oscarfed/oscarfed/controlplane/identity"
	"github.com/oscarfed/oscarfed/test/issuer"
)

// clock is a time that a test moves.
type clock struct {
	mu  sync.Mutex
	now time.Time
}

func (c *clock) time() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *clock) pass(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

// vouched is an authenticator over an issuer, a physicist whose token it has accepted,
// and what it says of that token now.
func vouched(t *testing.T, claims map[string]any) (i *issuer.Issuer, c *clock, ask func() error) {
	t.Helper()
	i, c = issuer.New(t, ""), &clock{now: time.Now()}
	i.User("ann", map[string]any{"group_membership": []string{"physics"}})
	o := start(t, identity.OIDCConfig{Issuers: []string{i.URL}, Groups: []string{"physics"}, Now: c.time})
	known(t, o, i)
	token := "Bearer " + i.Token("ann", claims)
	ask = func() error {
		_, err := o.Authenticate(request(token))
		return err
	}
	if err := ask(); err != nil {
		t.Fatal(err)
	}
	return i, c, ask
}

// TestWhoLeftHisGroupIsNotLetInUntilHisTokenExpires, but for 5 minutes at most; the same
// question shows that a grant is revoked.
func TestWhoLeftHisGroupIsNotLetInUntilHisTokenExpires(t *testing.T) {
	t.Parallel()
	i, c, ask := vouched(t, nil)
	i.User("ann", nil)
	asked := i.Calls("/userinfo")
	c.pass(4 * time.Minute)
	if err := ask(); err != nil || i.Calls("/userinfo") != asked {
		t.Errorf("the issuer is asked at every request: %v", err)
	}
	c.pass(2 * time.Minute)
	if err := ask(); !errors.Is(err, identity.ErrUnauthenticated) {
		t.Errorf("after 6 minutes: %v", err)
	}
	i.User("ann", map[string]any{"group_membership": []string{"physics"}})
	if err := ask(); err != nil {
		t.Errorf("back in the group: %v", err)
	}
}

// TestAnIssuerThatIsAwayIsBelievedForAnHour and is not asked at each request meanwhile.
func TestAnIssuerThatIsAwayIsBelievedForAnHour(t *testing.T) {
	t.Parallel()
	i, c, ask := vouched(t, map[string]any{"exp": time.Now().Add(3 * time.Hour).Unix()})
	i.Answer(http.StatusBadGateway)
	c.pass(6 * time.Minute)
	asked := i.Calls("/userinfo")
	for range 20 {
		if err := ask(); err != nil {
			t.Fatalf("after 6 minutes: %v", err)
		}
	}
	if n := i.Calls("/userinfo") - asked; n != 1 {
		t.Errorf("it was asked %d times", n)
	}
	c.pass(53 * time.Minute)
	if err := ask(); err != nil {
		t.Errorf("after 59 minutes: %v", err)
	}
	c.pass(2 * time.Minute)
	if err := ask(); err == nil || errors.Is(err, identity.ErrUnauthenticated) {
		t.Errorf("after 61 minutes: %v; want an error that does not blame the caller", err)
	}
	i.Answer(0)
	c.pass(time.Minute)
	if err := ask(); err != nil {
		t.Errorf("the issuer is back: %v", err)
	}
}

// TestATokenIsNeverBelievedPastItsExpiry although the issuer cannot be asked.
func TestATokenIsNeverBelievedPastItsExpiry(t *testing.T) {
	t.Parallel()
	i, c, ask := vouched(t, map[string]any{"exp": time.Now().Add(20 * time.Minute).Unix()})
	i.Answer(http.StatusBadGateway)
	c.pass(19 * time.Minute)
	if err := ask(); err != nil {
		t.Errorf("before: %v", err)
	}
	c.pass(2 * time.Minute)
	if err := ask(); !errors.Is(err, identity.ErrUnauthenticated) {
		t.Errorf("after: %v", err)
	}
}

// TestAnIssuerThatHangsDoesNotHoldUpWhoIsKnown: what it says in the end counts.
func TestAnIssuerThatHangsDoesNotHoldUpWhoIsKnown(t *testing.T) {
	t.Parallel()
	i, c, ask := vouched(t, nil)
	i.User("ann", nil)
	release := i.Hang()
	defer release()
	c.pass(6 * time.Minute)
	if err := ask(); err != nil {
		t.Errorf("while it hangs: %v", err)
	}
	release()
	for late := time.Now().Add(2 * time.Minute); ; c.pass(31 * time.Second) {
		if err := ask(); errors.Is(err, identity.ErrUnauthenticated) {
			return
		}
		if time.Now().After(late) {
			t.Fatal("she is let in for ever")
		}
	}
}

// TestABadSignatureAsksTheIssuerNothing: who makes up tokens costs it no request, and who
// makes up key ids some.
func TestABadSignatureAsksTheIssuerNothing(t *testing.T) {
	t.Parallel()
	i := issuer.New(t, "")
	o := start(t, identity.OIDCConfig{Issuers: []string{i.URL}})
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
}
