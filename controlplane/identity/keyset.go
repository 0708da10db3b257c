package identity

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
	"time"

	"github.com/go-jose/go-jose/v4"
	"golang.org/x/sync/singleflight"
	"golang.org/x/time/rate"
)

// keySet has the keys of an issuer. A signature that is wrong asks the issuer nothing:
// keys are fetched for a key id that is not among them, and when they are old. Anybody can
// make up a key id, so that is done seldom.
type keySet struct {
	url    string
	client *http.Client
	now    func() time.Time
	rate   *rate.Limiter
	fetch  singleflight.Group

	mu   sync.Mutex
	keys jose.JSONWebKeySet
	// at is when they were fetched, and failed why the last try brought none.
	at     time.Time
	failed error
}

func newKeySet(url string, client *http.Client, now func() time.Time) *keySet {
	return &keySet{url: url, client: client, now: now, rate: rate.NewLimiter(rate.Every(5*time.Second), 3)}
}

var errSignature = errors.New("the signature is none of the issuer's")

// outageKey marks the context of a verification with where it is noted that the keys could
// not be had: the token is not to blame, and go-oidc wraps no error.
type outageKey struct{}

// inHandKey marks the context of a verification that asks the issuer nothing.
type inHandKey struct{}

// algorithms of signatures: an access token may be signed otherwise than an ID token;
// never by a shared secret, and never not at all.
func algorithms() []jose.SignatureAlgorithm {
	return []jose.SignatureAlgorithm{
		jose.RS256, jose.RS384, jose.RS512, jose.ES256, jose.ES384, jose.ES512, jose.PS256, jose.PS384, jose.PS512, jose.EdDSA,
	}
}

// VerifySignature implements oidc.KeySet.
func (k *keySet) VerifySignature(ctx context.Context, jwt string) ([]byte, error) {
	jws, err := jose.ParseSigned(jwt, algorithms())
	if err != nil || len(jws.Signatures) != 1 {
		return nil, errSignature
	}
	kid := jws.Signatures[0].Header.KeyID
	keys, age := k.known()
	if ctx.Value(inHandKey{}) == nil && (len(matching(keys, kid)) == 0 || age >= askAgain) {
		switch fresh, err := k.refresh(ctx); {
		case err == nil:
			keys = fresh
		case len(matching(keys, kid)) == 0 || age >= believed:
			if noted, ok := ctx.Value(outageKey{}).(*error); ok && !errors.Is(err, errSignature) {
				*noted = err
			}
			return nil, err
		}
	}
	for _, key := range matching(keys, kid) {
		if payload, err := jws.Verify(key.Key); err == nil {
			return payload, nil
		}
	}
	return nil, errSignature
}

// matching are the keys that may have signed a token which names kid, or none.
func matching(set jose.JSONWebKeySet, kid string) (out []jose.JSONWebKey) {
	for _, key := range set.Keys {
		if (kid == "" || key.KeyID == "" || key.KeyID == kid) && key.Use != "enc" && key.IsPublic() {
			out = append(out, key)
		}
	}
	return out
}

func (k *keySet) known() (jose.JSONWebKeySet, time.Duration) {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.keys, k.now().Sub(k.at)
}

// refresh fetches the keys. Callers that come meanwhile share the answer, and none is
// bound to another one's request.
func (k *keySet) refresh(ctx context.Context) (jose.JSONWebKeySet, error) {
	result := k.fetch.DoChan("", func() (any, error) {
		if !k.rate.AllowN(k.now(), 1) {
			return nil, cmp.Or(k.lastFailure(), errSignature) // it was asked a moment ago
		}
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), checkTimeout)
		defer cancel()
		set, err := k.ask(ctx)
		k.mu.Lock()
		defer k.mu.Unlock()
		if k.failed = err; err != nil {
			return nil, err
		}
		k.keys, k.at = set, k.now()
		return set, nil
	})
	select {
	case res := <-result:
		set, _ := res.Val.(jose.JSONWebKeySet)
		return set, res.Err
	case <-ctx.Done():
		return jose.JSONWebKeySet{}, context.Cause(ctx)
	}
}

func (k *keySet) lastFailure() error {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.failed
}

func (k *keySet) ask(ctx context.Context) (jose.JSONWebKeySet, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, k.url, http.NoBody)
	if err != nil {
		return jose.JSONWebKeySet{}, err
	}
	resp, err := k.client.Do(req)
	if err != nil {
		return jose.JSONWebKeySet{}, err
	}
	body, err := io.ReadAll(resp.Body)
	if err := errors.Join(err, resp.Body.Close()); err != nil {
		return jose.JSONWebKeySet{}, err
	}
	if resp.StatusCode != http.StatusOK {
		return jose.JSONWebKeySet{}, fmt.Errorf("it answers %d", resp.StatusCode)
	}
	return parseKeys(body)
}

// parseKeys leaves out keys of kinds that are not known here.
func parseKeys(body []byte) (set jose.JSONWebKeySet, err error) {
	var raw struct {
		Keys []json.RawMessage `json:"keys"`
	}
	if err := json.Unmarshal(body, &raw); err != nil {
		return set, err
	}
	for _, one := range raw.Keys {
		var key jose.JSONWebKey
		if json.Unmarshal(one, &key) == nil && key.Valid() {
			set.Keys = append(set.Keys, key)
		}
	}
	return set, nil
}
