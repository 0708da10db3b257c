package runs

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"

	"github.com/oscarfed/oscarfed/controlplane/identity"
	"github.com/oscarfed/oscarfed/internal/share"
	"github.com/oscarfed/oscarfed/store/record"
)

// tenant is what a caller counts for at a cluster, with its weights. The word for its account names
// nobody.
func (c *Controller) tenant(caller identity.Caller, f *record.Federation) share.Tenant {
	account := accountOf(caller, f.Owner)
	return share.Tenant{Account: c.word(account), Federation: f.UID, Weights: c.cfg.Weights.Of(account, f.GroupID)}
}

// accountOf is the account of a caller. The bearer of a service's token takes of its owner's share:
// else many services would be many shares.
func accountOf(caller identity.Caller, owner string) string {
	if caller.Service != "" {
		return owner
	}
	return caller.Subject
}

// word tells syncers accounts apart, and names none.
func (c *Controller) word(account string) string {
	mac := hmac.New(sha256.New, c.accountKey)
	mac.Write([]byte("account\x00" + account))
	return base64.RawURLEncoding.EncodeToString(mac.Sum(nil)[:16])
}
