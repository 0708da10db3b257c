package oidcsim

import (
	"context"
	"crypto"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"strings"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"github.com/go-jose/go-jose/v4"
)

// Token is an access token of an hour for a subject; claims replace its own, and
// a nil one takes it away.
func (p *Provider) Token(subject string, claims map[string]any) (string, error) {
	p.mu.Lock()
	key, kid := p.key, p.kid
	p.mu.Unlock()
	return p.Sign(key, kid, "RS256", subject, claims)
}

// Sign makes a token with any key.
func (p *Provider) Sign(key any, kid, alg, subject string, claims map[string]any) (string, error) {
	all := map[string]any{
		"iss": p.URL, "sub": subject, "aud": "oscar", "jti": rand.Text(),
		"iat": time.Now().Unix(), "exp": time.Now().Add(time.Hour).Unix(),
	}
	for k, v := range claims {
		if v == nil {
			delete(all, k)
			continue
		}
		all[k] = v
	}
	payload, err := json.Marshal(all)
	if err != nil {
		return "", err
	}
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.SignatureAlgorithm(alg), Key: key},
		(&jose.SignerOptions{}).WithHeader("kid", kid))
	if err != nil {
		return "", err
	}
	signed, err := signer.Sign(payload)
	if err != nil {
		return "", err
	}
	return signed.CompactSerialize()
}

// Check says whose a token is, as one who knows the issuer's present
// key and the time would: claims of userinfo, as they are on the wire.
func (p *Provider) Check(ctx context.Context, token string) (subject string, claims map[string]any, err error) {
	p.mu.Lock()
	key := p.key.Public()
	p.mu.Unlock()
	verifier := oidc.NewVerifier(p.URL, &oidc.StaticKeySet{PublicKeys: []crypto.PublicKey{key}}, &oidc.Config{SkipClientIDCheck: true})
	id, err := verifier.Verify(ctx, token)
	if err != nil {
		return "", nil, err
	}
	own, _ := claimsOf(token)
	p.mu.Lock()
	raw, err := json.Marshal(p.info[id.Subject])
	ended := p.granted.ended(own)
	p.mu.Unlock()
	if ended {
		return "", nil, errors.New("its grant is revoked")
	}
	if err != nil {
		return "", nil, err
	}
	return id.Subject, claims, json.Unmarshal(raw, &claims)
}

// idToken says who was logged in (OpenID Connect Core 2); at_hash binds it to the access token.
func (p *Provider) idToken(subject, clientID, nonce, access string) (string, error) {
	sum := sha256.Sum256([]byte(access))
	claims := map[string]any{"aud": clientID, "at_hash": base64.RawURLEncoding.EncodeToString(sum[:len(sum)/2])}
	if nonce != "" {
		claims["nonce"] = nonce
	}
	return p.Token(subject, claims)
}

// claimsOf reads a JWT's claims without checking anything.
func claimsOf(token string) (map[string]any, bool) {
	parts := strings.Split(token, ".")
	if len(parts) != 3 {
		return nil, false
	}
	payload, err := base64.RawURLEncoding.DecodeString(parts[1])
	if err != nil {
		return nil, false
	}
	var claims map[string]any
	return claims, json.Unmarshal(payload, &claims) == nil
}
