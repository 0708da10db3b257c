package federations

import (
	"github.com/oscarfed/oscarfed/controlplane/tokens"
	"github.com/oscarfed/oscarfed/store"
	"github.com/oscarfed/oscarfed/store/record"
)

// holdKeys lists the keys that keepAlong reads.
func (ch Change) holdKeys(f *record.Federation) []string {
	if ch.Token.Token == "" {
		return nil
	}
	return tokens.HoldKeys(f)
}

// keepAlong puts the order to keep the token that came with a change into the transaction that
// accepts the change. So the token is kept for every accepted change, also when the instance
// dies before it answers.
func (c *Controller) keepAlong(v store.View, tx *store.Txn, ch Change, f *record.Federation) error {
	if ch.Token.Token == "" {
		return nil
	}
	return c.tokens.PutHold(v, tx, f, ch.Caller.Subject, c.tokens.Keeping(ch.Token, ch.Claim.RequestID))
}
