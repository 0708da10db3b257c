package kube

import (
	"crypto/sha1" //nolint:gosec // OSCAR names namespaces so; nothing rests on it being hard to forge
	"encoding/hex"
	"regexp"
	"strings"

	"github.com/oscarfed/oscarfed/api/oscar"
)

// ServicesNamespace is where OSCAR puts the administrator's services, and what the
// names of its users' namespaces begin with.
const ServicesNamespace = "oscar-svc"

// maxNamespace is how long OSCAR makes a user's namespace at most, in bytes.
const maxNamespace = 18

var outside = regexp.MustCompile(`[^a-z0-9-]+`)

// Namespace is where OSCAR v4.1 puts an owner's services: prefix for the
// administrator's, else prefix-<the owner's name, cut or filled up with the SHA-1 of
// it>, 18 bytes in all. Users whose names begin alike share one.
func Namespace(prefix, owner string) string {
	if owner == "" || owner == oscar.OwnerAdmin {
		return prefix
	}
	sum := sha1.Sum([]byte(owner)) //nolint:gosec // see above
	hash := hex.EncodeToString(sum[:])
	room := maxNamespace - len(prefix) - 1
	if room <= 0 {
		return cut(prefix+"-"+hash, maxNamespace)
	}
	name := cut(strings.Trim(outside.ReplaceAllString(strings.ToLower(owner), "-"), "-"), room)
	switch left := room - len(name) - 1; {
	case name == "":
		name = cut(hash, room)
	case left > 0:
		name += "-" + cut(hash, left)
	}
	return prefix + "-" + name
}

func cut(s string, most int) string {
	return strings.Trim(s[:min(len(s), most)], "-")
}
