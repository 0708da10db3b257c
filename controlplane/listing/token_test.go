package listing

import (
	"bytes"
	"encoding/base64"
	"errors"
	"strings"
	"testing"

	"github.com/oscarfed/oscarfed/controlplane/fault"
	"github.com/oscarfed/oscarfed/controlplane/identity"
)

var (
	ann = identity.Caller{Subject: "ann"}
	bob = identity.Caller{Subject: "bob"}
)

func codeOf(err error) fault.Code {
	if e, ok := errors.AsType[*fault.Error](err); ok {
		return e.Code
	}
	return ""
}

// TestATokenContinuesItsOwnListAlone: not another list, query or caller's, and not when a single
// bit of it is changed.
func TestATokenContinuesItsOwnListAlone(t *testing.T) {
	tokens, at := NewTokens("federations", []byte("key")), Position{Revision: 7, Epoch: "1", After: []string{"ann", "g", "u"}}
	q := Query{Owner: "ann", Limit: 5}
	token := tokens.Make(ann, &q, at)
	begin := func(of *Tokens, caller identity.Caller, q Query, token string, parts int) error {
		q.Continue = token
		_, err := of.Begin(caller, &q, parts, 9, "1")
		return err
	}
	if err := begin(tokens, ann, Query{Owner: "ann", Limit: 9}, token, 3); err != nil {
		t.Errorf("its own: %v", err)
	}
	flipped, _ := base64.RawURLEncoding.DecodeString(token)
	flipped[len(flipped)-2] ^= 1
	for what, err := range map[string]error{
		"another list":    begin(NewTokens("services", []byte("key")), ann, q, token, 3),
		"another key":     begin(NewTokens("federations", []byte("other")), ann, q, token, 3),
		"another caller":  begin(tokens, bob, q, token, 3),
		"another query":   begin(tokens, ann, Query{Owner: "ann", Phases: []string{"ready"}}, token, 3),
		"other parts":     begin(tokens, ann, q, token, 1),
		"a changed bit":   begin(tokens, ann, q, base64.RawURLEncoding.EncodeToString(flipped), 3),
		"a tail":          begin(tokens, ann, q, token+"AA", 3),
		"not base64":      begin(tokens, ann, q, "%%%", 3),
		"short":           begin(tokens, ann, q, "AAAA", 3),
		"far too long":    begin(tokens, ann, q, strings.Repeat("A", MaxToken+1), 3),
		"a long real one": begin(tokens, ann, q, tokens.Make(ann, &q, Position{After: []string{strings.Repeat("x", MaxToken), "", ""}}), 3),
	} {
		if codeOf(err) != fault.CodeInvalid {
			t.Errorf("%s: %v", what, err)
		}
	}
	q.Continue = token
	for what, now := range map[string]struct {
		revision int64
		epoch    string
	}{"an older store": {6, "1"}, "another epoch": {9, "2"}} {
		_, err := tokens.Begin(ann, &q, 3, now.revision, now.epoch)
		if codeOf(err) != fault.CodeExpired {
			t.Errorf("%s: %v", what, err)
		}
		goOn := q
		goOn.Continue = err.(*fault.Error).Continue
		if got, err := tokens.Begin(ann, &goOn, 3, now.revision, now.epoch); err != nil || got.Revision != now.revision || got.After[1] != "g" {
			t.Errorf("%s cannot be gone on with: %+v, %v", what, got, err)
		}
	}
}

// FuzzToken: nothing but what was made is read, and nothing makes the parser panic.
func FuzzToken(f *testing.F) {
	tokens, q := NewTokens("federations", []byte("key")), Query{}
	made := tokens.Make(ann, &q, Position{Revision: 1, After: []string{"a"}})
	for _, seed := range []string{made, "", "AAAA", made[:10], strings.ToLower(made), made + "="} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, token string) {
		c, ok := tokens.parse(token)
		if !ok {
			return
		}
		raw, err := base64.RawURLEncoding.DecodeString(token)
		if err != nil || !bytes.Equal(raw[:macSize], tokens.mac(raw[macSize:])) || token != made {
			t.Errorf("%q was never made, and is read as %+v", token, c)
		}
	})
}
