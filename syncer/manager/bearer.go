package manager

import (
	"context"
	"log/slog"
	"net/http"
	"strings"
)

// Bearer is a user's access token. It prints as nothing that opens a door.
type Bearer string

// hiddenBearer is what a token prints as.
const hiddenBearer = "(access token)"

// String implements fmt.Stringer.
func (Bearer) String() string { return hiddenBearer }

// GoString implements fmt.GoStringer.
func (Bearer) GoString() string { return hiddenBearer }

// LogValue implements slog.LogValuer.
func (Bearer) LogValue() slog.Value { return slog.StringValue(hiddenBearer) }

// MarshalText implements encoding.TextMarshaler.
func (Bearer) MarshalText() ([]byte, error) { return []byte(hiddenBearer), nil }

// Admits asks whether OSCAR lets a user in: nil when it does, an error for which
// NotAdmitted holds when it does not. It reads what every user may read; like any
// first call of a user, it makes OSCAR prepare his namespace.
func (c *Client) Admits(ctx context.Context, as Bearer) error {
	_, err := c.do(ctx, call{op: OpAdmits, method: http.MethodGet, path: []string{"system", "info"}, as: as})
	return err
}

// NotAdmitted says that OSCAR does not accept a user's token: its issuer, its
// expiry, its groups, or, with 400, what it is. With 500 and the issuer's own 401 it was revoked.
func NotAdmitted(err error) bool {
	return Refused(err) || StatusOf(err) == http.StatusBadRequest || strings.HasPrefix(bodyOf(err), "401 Unauthorized") //nolint:misspell // the status of HTTP
}
