package runs

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"

	"github.com/oscarfed/oscarfed/controlplane/identity"
)

// accountWord tells syncers accounts apart, and names none. The bearer of a service's token
// takes of its owner's share: else many services would be many shares.
func (c *Controller) accountWord(caller identity.Caller, owner string) string {
	account := caller.Subject
	if caller.Service != "" {
		account = owner
	}
	mac := hmac.New(sha256.New, c.accountKey)
	mac.Write([]byte("account\x00" + account))
	return base64.RawURLEncoding.EncodeToString(mac.Sum(nil)[:16])
}
