package runs

import (
	"strings"
	"testing"

	"github.com/oscarfed/oscarfed/controlplane/identity"
)

// One word for each account, also for the bearer of a service's token: many services are not
// many shares. All instances have the key and say the same, and the word names nobody.
func TestAServicesTokenTakesOfItsOwnersShare(t *testing.T) {
	t.Parallel()
	c, other := &Controller{accountKey: []byte("one key")}, &Controller{accountKey: []byte("one key")}
	anna := c.word(accountOf(identity.Caller{Subject: "anna"}, "owner"))
	owner := c.word(accountOf(identity.Caller{Subject: "owner"}, "owner"))
	if anna == owner || strings.Contains(anna, "anna") {
		t.Errorf("a user is %q, and the owner %q", anna, owner)
	}
	for _, service := range []string{"life-1", "life-2"} {
		if got := c.word(accountOf(identity.Caller{Service: service}, "owner")); got != owner {
			t.Errorf("the bearer of the token of %s is %q, and the owner %q", service, got, owner)
		}
	}
	if got := other.word("anna"); got != anna {
		t.Errorf("another instance says %q, not %q", got, anna)
	}
}
