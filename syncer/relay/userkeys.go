package relay

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"

	v1 "github.com/oscarfed/oscarfed/api/v1"
)

// A user's own keys of this cluster's MinIO, for another cluster's syncer that runs jobs of the
// user with the data here. The syncer asks OSCAR with the user's access token only, since OSCAR
// gives its administrator MinIO's root keys. It returns the answer only when the keys are those
// of the token's subject.

// maxConfig bounds OSCAR's answer in bytes, and maxUserToken an access token.
const (
	maxConfig    = 1 << 20
	maxUserToken = 16 << 10
)

// userKeys answers GET /config.
func (h *handler) userKeys(w http.ResponseWriter, r *http.Request) {
	const what = "config"
	refuse := func(status int, word, text string) { h.refuse(w, what, &refusal{status, word, text}) }
	if r.Method == http.MethodHead { // a pattern of GET matches it
		refuse(http.StatusForbidden, v1.RelayNotAllowed, "the syncer of this cluster passes no HEAD on")
		return
	}
	token := r.Header.Get(v1.RelayUserTokenHeader)
	subject := subjectOf(token)
	if subject == "" || !printable(token, maxUserToken) {
		refuse(http.StatusForbidden, v1.RelayNotAllowed, "the configuration of this cluster is asked for with a user's access token alone")
		return
	}
	give, no := takeSlot(h.asks, r)
	if no != nil {
		h.refuse(w, what, no)
		return
	}
	defer give()
	ctx, cancel := context.WithTimeout(r.Context(), h.limits.Ask)
	defer cancel()
	resp, err := h.site.Send(ctx, Outgoing{Method: http.MethodGet, Path: []string{"system", "config"}, Token: token})
	if err != nil {
		refuse(http.StatusServiceUnavailable, v1.RelayAway, "the cluster's OSCAR does not answer its syncer")
		return
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		h.counted(what, "passed")
		if resp.StatusCode < http.StatusOK {
			resp.StatusCode = http.StatusBadGateway
		}
		w.WriteHeader(resp.StatusCode) // without OSCAR's text, which may hold secrets
		return
	}
	body, err := keysIn(resp.Body, subject)
	if err != nil {
		refuse(http.StatusForbidden, v1.RelayNotAllowed, err.Error())
		return
	}
	h.counted(what, "passed")
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	w.Header().Set("Cache-Control", "no-store")
	_, _ = w.Write(body) // the caller asks again after a broken answer
}

// keysIn is the part of OSCAR's answer that is returned: the address of MinIO and the user's keys.
func keysIn(from io.Reader, subject string) ([]byte, error) {
	data, err := io.ReadAll(io.LimitReader(from, maxConfig+1))
	if err != nil || len(data) > maxConfig {
		return nil, fmt.Errorf("what OSCAR answers broke off, or is larger than %d bytes", maxConfig)
	}
	var out struct {
		Config       struct{}          `json:"config"`
		MinIO        *v1.MinIOProvider `json:"minio_provider"`
		Repositories []string          `json:"allowed_image_repositories"`
	}
	// The decoder's error could quote what it read.
	if json.Unmarshal(data, &out) != nil || out.MinIO == nil {
		return nil, fmt.Errorf("what OSCAR answers is no configuration")
	}
	if out.MinIO.AccessKey != subject {
		return nil, fmt.Errorf("OSCAR answers with keys that are not those of the user who asks; they are not passed on")
	}
	out.Repositories = []string{}
	return json.Marshal(out)
}

// subjectOf reads the subject of an access token without verifying it, as OSCAR does before it
// asks the issuer; empty for what is no JWT. OSCAR verifies the signature.
func subjectOf(token string) string {
	parts := strings.Split(token, ".")
	if len(parts) != 3 {
		return ""
	}
	claims, err := base64.RawURLEncoding.DecodeString(strings.TrimRight(parts[1], "="))
	if err != nil {
		return ""
	}
	var in struct {
		Subject string `json:"sub"`
	}
	if json.Unmarshal(claims, &in) != nil {
		return ""
	}
	return in.Subject
}
