package server_test

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/oscarfed/oscarfed/controlplane/identity"
	"github.com/oscarfed/oscarfed/test/issuer"
)

// badTokens are tokens that must be refused, each named by what is wrong with it. Their subject is
// called somebody, and a good token of that subject is accepted.
func badTokens(t *testing.T, i, other *issuer.Issuer) map[string]string {
	t.Helper()
	foreign, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	claims := map[string]any{"iss": i.URL, "sub": "somebody", "aud": "oscar", "iat": now.Unix(), "exp": now.Add(time.Hour).Unix()}
	good := i.Token("somebody", nil)
	parts := strings.Split(good, ".")
	with := func(claims map[string]any) string { return i.Token("somebody", claims) }
	tokens := map[string]string{
		"none":               "",
		"unlisted":           other.Token("somebody", nil),
		"of a foreign key":   i.Sign(foreign, "k", "RS256", "somebody", nil),
		"expired":            with(map[string]any{"exp": now.Add(-time.Minute).Unix()}),
		"without an expiry":  with(map[string]any{"exp": nil}),
		"expired as text":    with(map[string]any{"exp": "tomorrow"}),
		"not yet good":       with(map[string]any{"nbf": now.Add(time.Hour).Unix()}),
		"wrong audience":     with(map[string]any{"aud": "another"}),
		"no audience":        with(map[string]any{"aud": nil}),
		"other audiences":    with(map[string]any{"aud": []string{"a", "OSCAR", "oscar "}}),
		"issuer and a slash": with(map[string]any{"iss": i.URL + "/"}),
		"issuer in capitals": with(map[string]any{"iss": strings.ToUpper(i.URL)}),
		"issuer as a list":   with(map[string]any{"iss": []string{i.URL}}),
		"no issuer":          with(map[string]any{"iss": nil}),
		"issuer of another":  other.Sign(foreign, "k", "RS256", "somebody", map[string]any{"iss": i.URL}),
		"no subject":         with(map[string]any{"sub": nil}),
		"empty subject":      with(map[string]any{"sub": ""}),
		"subject as a list":  with(map[string]any{"sub": []string{"somebody"}}),
		"wrong group":        i.Token("chess player", nil),
		"malformed":          "a.b",
		"dots":               "..",
		"five parts":         good + ".a.b",
		"no signature":       parts[0] + "." + parts[1] + ".",
		"cut signature":      good[:len(good)-8],
		"signature of zeros": parts[0] + "." + parts[1] + "." + strings.Repeat("A", len(parts[2])),
		"other claims":       parts[0] + "." + encoded(claims) + "." + parts[2],
		"oversized":          with(map[string]any{"pad": strings.Repeat("x", identity.MaxToken)}),
		"a service's":        strings.Repeat("0123456789abcdef", 4),
		"the password":       password,
		"two tokens":         good + " " + good,
		"with a comma":       good + "," + good,
		"twice encoded":      base64.RawURLEncoding.EncodeToString([]byte(good)),
	}
	for _, alg := range []string{"none", "None", "NONE", "", "HS256", "HS512", "RS1", "PS256"} {
		head := encoded(map[string]any{"alg": alg, "typ": "JWT"})
		tokens["alg "+alg+", unsigned"] = head + "." + encoded(claims) + "."
		mac := hmac.New(sha256.New, []byte(i.URL))
		fmt.Fprint(mac, head+"."+encoded(claims))
		tokens["alg "+alg+", by a known text"] = head + "." + encoded(claims) + "." + base64.RawURLEncoding.EncodeToString(mac.Sum(nil))
	}
	for _, header := range []map[string]any{
		{"alg": "RS256", "jku": other.URL + "/keys"}, {"alg": "RS256", "x5u": other.URL}, {"alg": "RS256", "kid": "../../../../dev/null"},
		{"alg": "RS256", "crit": []string{"exp"}, "exp": 1}, {"alg": "RS256", "b64": false, "crit": []string{"b64"}}, {"alg": "RS256", "zip": "DEF"},
		{"alg": []string{"RS256"}}, {"alg": "dir", "enc": "A128GCM"},
	} {
		tokens[fmt.Sprint("header ", header)] = encoded(header) + "." + parts[1] + "." + parts[2]
	}
	return tokens
}

func encoded(v any) string {
	data, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return base64.RawURLEncoding.EncodeToString(data)
}
