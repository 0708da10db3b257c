package origin

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"

	"github.com/oscarfed/oscarfed/api/oscar"
)

// Secret is the secret part of a pair of keys. It prints as nothing that opens a door.
type Secret string

// hiddenSecret is what a secret prints as.
const hiddenSecret = "(secret key)"

// String implements fmt.Stringer.
func (Secret) String() string { return hiddenSecret }

// GoString implements fmt.GoStringer.
func (Secret) GoString() string { return hiddenSecret }

// LogValue implements slog.LogValuer.
func (Secret) LogValue() slog.Value { return slog.StringValue(hiddenSecret) }

// MarshalText implements encoding.TextMarshaler.
func (Secret) MarshalText() ([]byte, error) { return []byte(hiddenSecret), nil }

// Keys are an owner's at one MinIO.
type Keys struct {
	// Endpoint of the MinIO, its region, and whether its certificate is to be verified.
	Endpoint, Region string
	Verify           bool
	AccessKey        string
	SecretKey        Secret
}

// Ask says whose keys are wanted, and of what.
type Ask struct {
	// Owner is the subject whose keys they must be, and Token an access token of his.
	Owner, Token string
	// Cluster is the id of the other cluster, Endpoint the registered address of its
	// OSCAR, and SSLVerify what the registration says of its certificate.
	Cluster, Endpoint string
	SSLVerify         bool
	// MinIO is the endpoint that the keys must be for.
	MinIO string
}

// Kind says what is wrong.
type Kind int

const (
	// Unreachable is no answer, or none that an OSCAR gives. It may pass.
	Unreachable Kind = iota + 1
	// Refused is an OSCAR that does not let the owner in.
	Refused
	// Wrong is an answer that is not about this owner, or not about this MinIO.
	Wrong
)

// Error is why there are no keys, or why a MinIO is of no use.
type Error struct {
	Kind Kind
	// Message is a sentence that is the same as long as the cause is, without secrets.
	Message string
	// Err tells more, to a log.
	Err error
}

// Error implements error.
func (e *Error) Error() string {
	if e.Err != nil {
		return fmt.Sprintf("%s: %v", e.Message, e.Err)
	}
	return e.Message
}

// Unwrap gives the cause.
func (e *Error) Unwrap() error { return e.Err }

// maxKey bounds each part of a pair of keys in bytes: MinIO takes less.
const maxKey = 1 << 10

// accept is pure: the keys in an answer, if they are what was asked for.
func accept(body []byte, a Ask) (Keys, error) {
	var in struct {
		MinIO *oscar.MinIOProvider `json:"minio_provider"`
	}
	// The decoder's error could quote what it read.
	if json.Unmarshal(body, &in) != nil || in.MinIO == nil {
		return Keys{}, &Error{Kind: Unreachable, Message: fmt.Sprintf("what cluster %s answers is not the configuration of an OSCAR", a.Cluster)}
	}
	m := in.MinIO
	switch {
	case m.AccessKey == "" || m.SecretKey == "" || !validKey(m.AccessKey) || !validKey(m.SecretKey):
		return Keys{}, &Error{Kind: Wrong, Message: fmt.Sprintf("the OSCAR of cluster %s gives the owner no keys of its MinIO", a.Cluster)}
	case m.AccessKey != a.Owner:
		return Keys{}, &Error{Kind: Wrong, Message: fmt.Sprintf("cluster %s answers with keys that are not the owner's; they are not used", a.Cluster)}
	case !SameEndpoint(m.Endpoint, a.MinIO):
		return Keys{}, &Error{Kind: Wrong, Message: fmt.Sprintf(
			"the keys that are given for cluster %s are for another MinIO than the one that the service names; if it has moved, change the service: the next generation has its new place", a.Cluster)}
	}
	return Keys{Endpoint: m.Endpoint, Region: m.Region, Verify: m.Verify, AccessKey: m.AccessKey, SecretKey: Secret(m.SecretKey)}, nil
}

// SameEndpoint says whether two endpoints are the same but for a slash at the end.
func SameEndpoint(a, b string) bool { return strings.TrimRight(a, "/") == strings.TrimRight(b, "/") }

// validKey says whether a text can be a key: keys are sent in headers.
func validKey(key string) bool {
	return len(key) <= maxKey && !strings.ContainsFunc(key, func(c rune) bool { return c <= ' ' || c == 0x7f })
}
