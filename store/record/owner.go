package record

import (
	"net/url"
	"strings"
)

// Owner binds a subject to the issuer whose user was seen first under it: another issuer's user
// with the same subject is a different person, and is not let in.
type Owner struct {
	V       int    `json:"v"`
	Issuer  string `json:"issuer"`
	BoundAt Time   `json:"bound_at"`
}

// OwnerKey says whose a subject is. It may hold any character, and is escaped to one
// path segment.
func OwnerKey(subject string) string { return OwnersPrefix + escape(subject) }

func parseOwner(tail string) Ref {
	plain, err := url.PathUnescape(tail)
	if err != nil || strings.Contains(tail, "/") {
		return Ref{}
	}
	return Ref{Kind: KindOwner, Owner: plain}
}
