package clusters

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"time"
)

// A syncer puts a challenge into the request that it signs, so that an old request proves nothing.
// It has the time at which it was given, random bytes, and an HMAC of both under a key that all
// instances have. No instance stores it: each one accepts the challenges of the others, and the
// syncer's clock does not count. A request may be repeated within the life of its challenge: it
// has the same effect, and only the owner of the key can use the certificate.
const (
	challengeLife  = 5 * time.Minute
	challengeStamp = 8
	challengeNonce = 16
	challengeMAC   = 16
	// challengeBytes make 54 characters of base64: a common name has at most 64.
	challengeBytes = challengeStamp + challengeNonce + challengeMAC
)

// Challenge gives a challenge and when it is over.
func (c *Controller) Challenge() (string, time.Time, error) {
	now := c.cfg.Now()
	b := binary.BigEndian.AppendUint64(make([]byte, 0, challengeBytes), uint64(now.Unix())) //nolint:gosec // after 1970
	nonce := make([]byte, challengeNonce)
	if _, err := rand.Read(nonce); err != nil {
		return "", time.Time{}, fmt.Errorf("make a challenge: %w", err)
	}
	b = append(b, nonce...)
	b = append(b, c.challengeMAC(b)...)
	return base64.RawURLEncoding.EncodeToString(b), now.Add(challengeLife), nil
}

// meets says whether text is a challenge that was given and is not over. The clocks
// of two instances may differ by as much as it lives.
func (c *Controller) meets(text string) bool {
	b, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil || len(b) != challengeBytes {
		return false
	}
	body, mac := b[:challengeStamp+challengeNonce], b[challengeStamp+challengeNonce:]
	if !hmac.Equal(mac, c.challengeMAC(body)) {
		return false
	}
	given := time.Unix(int64(binary.BigEndian.Uint64(body)), 0) //nolint:gosec // one of ours
	return c.cfg.Now().Sub(given).Abs() <= challengeLife
}

func (c *Controller) challengeMAC(body []byte) []byte {
	mac := hmac.New(sha256.New, c.proofKey)
	mac.Write(body)
	return mac.Sum(nil)[:challengeMAC]
}
