package listing

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/oscarfed/oscarfed/api/oscar"
	"github.com/oscarfed/oscarfed/controlplane/fault"
	"github.com/oscarfed/oscarfed/controlplane/identity"
	"github.com/oscarfed/oscarfed/store"
)

// MaxToken bounds a token in bytes: the longest position has an owner and two names.
const MaxToken = 4 << 10

// Position is where a page begins: behind the entry After at a revision of an epoch.
type Position struct {
	Revision int64    `json:"r"`
	Epoch    string   `json:"e"`
	After    []string `json:"a"`
}

// content is what a token has besides its signature. List and Query say what it is of: a token
// continues no other list, no other query, and that of no other caller.
type content struct {
	Position
	List  string `json:"l"`
	Query string `json:"q"`
}

// Tokens makes and reads the tokens of one list. Instances with one key read each other's.
type Tokens struct {
	list string
	key  []byte
}

// NewTokens makes Tokens. The key is a secret of the control plane.
func NewTokens(list string, key []byte) *Tokens { return &Tokens{list: list, key: key} }

const macSize = 16

func (t *Tokens) mac(payload []byte) []byte {
	h := hmac.New(sha256.New, t.key)
	h.Write(payload)
	return h.Sum(nil)[:macSize]
}

// digestOf tells queries of callers apart. The limit may differ from page to page.
func digestOf(caller identity.Caller, q *Query) string {
	selector := ""
	if q.Labels != nil {
		selector = q.Labels.String()
	}
	sum := sha256.Sum256(fmt.Appendf(nil, "%q %q", []string{caller.Account(), q.Owner, q.ClusterID, selector}, q.Phases))
	return hex.EncodeToString(sum[:8])
}

// Make makes the token of a position.
func (t *Tokens) Make(caller identity.Caller, q *Query, at Position) string {
	payload, _ := json.Marshal(content{Position: at, List: t.list, Query: digestOf(caller, q)}) //nolint:errchkjson // strings can be encoded
	return base64.RawURLEncoding.EncodeToString(append(t.mac(payload), payload...))
}

// Read reads the token of a query, whose position has so many parts.
func (t *Tokens) Read(caller identity.Caller, q *Query, parts int) (Position, error) {
	c, ok := t.parse(q.Continue)
	if !ok || c.List != t.list || c.Query != digestOf(caller, q) || len(c.After) != parts || c.Revision < 0 {
		return Position{}, fault.Invalid(oscar.Violation{
			Path: "?continue", Rule: oscar.RuleType,
			Message: "it is no token of this list with these filters; leave it out to begin anew",
		})
	}
	return c.Position, nil
}

func (t *Tokens) parse(token string) (c content, ok bool) {
	if len(token) > MaxToken {
		return content{}, false
	}
	raw, err := base64.RawURLEncoding.Strict().DecodeString(token)
	if err != nil || len(raw) < macSize || !hmac.Equal(raw[:macSize], t.mac(raw[macSize:])) {
		return content{}, false
	}
	return c, json.Unmarshal(raw[macSize:], &c) == nil
}

// Begin is where a page of a query begins: at its token, or before everything at the present
// revision. The revision of a token of another epoch is gone.
func (t *Tokens) Begin(caller identity.Caller, q *Query, parts int, revision int64, epoch string) (Position, error) {
	now := Position{Revision: revision, Epoch: epoch, After: make([]string, parts)}
	if q.Continue == "" {
		return now, nil
	}
	at, err := t.Read(caller, q, parts)
	switch {
	case err != nil:
		return Position{}, err
	case at.Revision == 0: // it goes on at the present revision
		now.After = at.After
		return now, nil
	case at.Epoch != epoch || at.Revision > revision:
		return Position{}, t.Expired(caller, q, at)
	}
	return at, nil
}

// Expired is the error for a revision that is gone, with the token that goes on without it.
func (t *Tokens) Expired(caller identity.Caller, q *Query, at Position) error {
	return expired(t.Make(caller, q, Position{After: at.After}))
}

// crossing makes the error of a page out of that of a read at its revision.
func (t *Tokens) crossing(err error, caller identity.Caller, q *Query, at Position) error {
	switch {
	case !errors.Is(err, store.ErrCompacted):
		return fault.Crossing(err)
	case strings.Join(at.After, "") == "":
		return &fault.Error{Code: fault.CodeUnavailable, Message: "the store changed faster than it could be listed; try again", RetryAfter: fault.RetryShort, Cause: err}
	}
	return t.Expired(caller, q, at)
}
