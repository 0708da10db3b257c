package services

import (
	"errors"
	"time"

	"github.com/oscarfed/oscarfed/store/record"
	"github.com/oscarfed/oscarfed/syncer/definition"
	"github.com/oscarfed/oscarfed/syncer/ownertoken"
)

// ownerToken is what is known of the access token that a write needs.
type ownerToken struct {
	// needed is false where the cluster's own credential is used.
	needed  bool
	pending bool
	// reason and message say why there is none; empty when there is one.
	reason  record.Reason
	message string
}

// findToken fills in the token of a service whose next write is sent with it.
func (s *Services) findToken(v *observation) error {
	d := v.desired
	if needed, err := v.needsOwner(); err != nil || !needed {
		return err
	}
	v.token.needed = true
	token, err := s.deps.Tokens.Access(d, v.now)
	if none, ok := errors.AsType[*ownertoken.NoTokenError](err); ok {
		v.token.reason, v.token.message, v.token.pending = none.Reason, none.Message, none.Pending
		return nil
	}
	v.as = token
	return err
}

// tooLong says whether a token that was delivered will have expired when the writes
// before its service's are done.
func (s *Services) tooLong(v *observation, delay time.Duration) bool {
	return v.as.Value != "" && !v.as.Expires.After(s.session.Now().Add(delay+ownertoken.TokenSlack))
}

// needsOwner says whether the next write is sent with the owner's token: his service's
// creation, a change that gives a user a bucket of his own, or the deletion of his buckets, of
// his volume or of a Secret in his namespace.
func (v *observation) needsOwner() (bool, error) {
	d := v.desired
	switch {
	case d == nil || !definition.UsersService(d):
		return false, nil
	case d.Tombstone():
		return v.dropsBuckets() || v.dropsVolume() || v.local.secretAlone && v.memory.leavesSecret, nil
	case d.Intent == record.IntentApply && v.local.whose == ours && v.def != nil:
		return v.def.AddsUsers(v.service)
	}
	return d.Intent != record.IntentApply || v.local.whose == noService, nil
}
