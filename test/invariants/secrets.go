package invariants

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"iter"
	"net/url"
	"slices"
	"strings"

	"github.com/oscarfed/oscarfed/store/record"
)

// Promise 9: no secret is readable in etcd. The canary secrets of a test are
// looked for as they are and as encodings would hide them; every field that sounds
// like a credential is empty or an age envelope; and no text is the token of a
// service whose mark is known.
func secretsStep(c *checker) {
	for _, ch := range c.changes {
		if ch.now == nil {
			continue
		}
		for _, n := range c.needles {
			if bytes.Contains([]byte(ch.key), n.text) || bytes.Contains(ch.now.kv.Value, n.text) {
				c.violatef(RuleSecrets, ch.key, "canary secret %d of the test is readable (%s)", n.secret, n.form)
			}
		}
		c.noToken(ch)
		if was, now := as[record.Owner](ch.old), as[record.Owner](ch.now); was != nil && now != nil && was.Issuer != now.Issuer {
			c.violatef(RuleSecrets, ch.key, "the subject of a user of %s is now that of one of %s", was.Issuer, now.Issuer)
		}
		var value any
		if json.Unmarshal(ch.now.kv.Value, &value) != nil {
			continue // told by the records rule
		}
		for _, path := range readable(nil, value, false) {
			c.violatef(RuleSecrets, ch.key, "%s is readable", path)
		}
		c.sealed(ch)
	}
}

// sealed: where an envelope belongs, there is one.
func (c *checker) sealed(ch *change) {
	check := func(field, text string) {
		if !envelope(text) {
			c.violatef(RuleSecrets, ch.key, "%s is no age envelope", field)
		}
	}
	switch rec := ch.now.rec.(type) {
	case *record.Spec:
		check("sealed", rec.Sealed)
	case *record.Part:
		if rec.Sealed != "" {
			check("sealed", rec.Sealed)
		}
	case *record.Secrets:
		check("sealed", rec.Sealed)
	case *record.Tokens:
		check("access", rec.Access)
	case *record.Hold:
		if rec.Refresh != "" {
			check("refresh", rec.Refresh)
		}
	case *record.Grant:
		if rec.Access != "" {
			check("access", rec.Access)
		}
	}
}

// envelope says whether a text is an age envelope in base64: the version line, at
// least one recipient, and the end of the header.
func envelope(text string) bool {
	raw, err := base64.StdEncoding.DecodeString(text)
	if err != nil {
		return false
	}
	rest, ok := bytes.CutPrefix(raw, []byte("age-encryption.org/v1\n-> "))
	return ok && bytes.Contains(rest, []byte("\n--- "))
}

// needle is one form in which a secret would be readable.
type needle struct {
	secret int
	form   string
	text   []byte
}

// Readable tells which secrets a text shows, in the clear or in a common encoding, and what stands
// before each of them.
func Readable(text []byte, secrets []string) ([]string, error) {
	needles, err := needlesOf(secrets)
	if err != nil {
		return nil, err
	}
	var out []string
	for _, n := range needles {
		if at := bytes.Index(text, n.text); at >= 0 {
			out = append(out, fmt.Sprintf("secret %d is readable (%s) after %s", n.secret, n.form, text[max(0, at-vicinity):at]))
		}
	}
	return out, nil
}

// vicinity is how much is told of what stands before a secret.
const vicinity = 300

// minSecret is the fewest bytes of a canary secret.
const minSecret = 8

// needlesOf gives the forms that are looked for.
func needlesOf(secrets []string) ([]needle, error) {
	var out []needle
	for i, secret := range secrets {
		if len(secret) < minSecret {
			return nil, fmt.Errorf("canary secret %d has %d bytes: with less than %d it would be found by chance", i+1, len(secret), minSecret)
		}
		quoted, err := json.Marshal(secret)
		if err != nil {
			return nil, fmt.Errorf("canary secret %d: %w", i+1, err)
		}
		out = append(out,
			needle{i + 1, "as it is", []byte(secret)},
			needle{i + 1, "in JSON", quoted[1 : len(quoted)-1]},
			needle{i + 1, "in hexadecimal", []byte(hex.EncodeToString([]byte(secret)))},
			needle{i + 1, "in a URL", []byte(url.QueryEscape(secret))},
		)
		for shift := range 3 {
			out = append(out, needle{i + 1, "in base64", base64Core(secret, shift)})
		}
	}
	return out, nil
}

// base64Core is what a text looks like in base64 when shift bytes go before it,
// without the characters that depend on its neighbours.
func base64Core(text string, shift int) []byte {
	coded := base64.RawStdEncoding.EncodeToString(append(make([]byte, shift), text...))
	first := (shift*8 + 5) / 6
	last := (shift + len(text)) * 8 / 6
	return []byte(coded[first:last])
}

// tokenLike runs over the words that may be the token of a service; every SHA-256 is
// one, too. A regular expression took most of the time of a check of large events.
func tokenLike(value []byte) iter.Seq[string] {
	return func(yield func(string) bool) {
		for word := range bytes.FieldsFuncSeq(value, func(r rune) bool { return !wordRune(r) }) {
			if len(word) == 64 && len(bytes.Trim(word, "0123456789abcdef")) == 0 && !yield(string(word)) {
				return
			}
		}
	}
}

func wordRune(r rune) bool {
	return r == '_' || '0' <= r && r <= '9' || 'A' <= r && r <= 'Z' || 'a' <= r && r <= 'z'
}

// noToken looks for the token of a service: a text whose fingerprint is a mark. The
// spec is written before the record with the mark, so both orders are looked at.
func (c *checker) noToken(ch *change) {
	for text := range tokenLike(ch.now.kv.Value) {
		mark := record.Mark(text)
		v := Violation{Key: ch.key, Message: "the token of a service is readable"}
		if _, known := c.past.hex64[mark]; !known {
			c.past.hex64[mark] = v
		}
		if c.past.marks[mark] != "" {
			c.violatef(RuleSecrets, v.Key, "%s", v.Message)
		}
	}
	if d := as[record.Desired](ch.now); d != nil {
		if v, seen := c.past.hex64[d.Mark]; seen {
			c.violatef(RuleSecrets, v.Key, "%s", v.Message)
		}
	}
}

// readable lists the paths of fields that hold a credential in the clear. below
// says that everything here is secret.
func readable(path []string, value any, below bool) []string {
	var out []string
	switch v := value.(type) {
	case map[string]any:
		for key, item := range v {
			if userMap(path, key) {
				continue
			}
			at := append(slices.Clone(path), key)
			out = append(out, readable(at, item, below || secretField(path, key))...)
		}
	case []any:
		for i, item := range v {
			at := append(slices.Clone(path), fmt.Sprint(i))
			out = append(out, readable(at, item, below)...)
		}
	case string:
		if below && v != "" && v != "hidden" && !envelope(v) {
			out = append(out, strings.Join(path, "."))
		}
	default:
		if below && v != nil && v != false && v != float64(0) {
			out = append(out, strings.Join(path, "."))
		}
	}
	slices.Sort(out)
	return out
}

// userMap names maps whose keys and values are the user's own and public by the
// rules of OSCAR.
func userMap(path []string, key string) bool {
	switch key {
	case "annotations", "labels":
		return true
	case "variables":
		return len(path) > 0 && path[len(path)-1] == "environment"
	}
	return false
}

// secretField says whether everything below a field is secret.
func secretField(path []string, key string) bool {
	key = strings.ToLower(key)
	switch key {
	case "token", "secrets", "secret", "access_key", "secret_key", "private_key", "api_key", "auth_header":
		return true
	case "headers":
		return len(path) > 1 && path[len(path)-2] == "members"
	}
	for _, part := range []string{"password", "passwd", "passphrase", "refresh_token", "access_token", "id_token", "client_secret", "credential"} {
		if strings.Contains(key, part) {
			return true
		}
	}
	return false
}
