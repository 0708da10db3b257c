package v1

import (
	"net/http"
	"net/url"
	"strings"
)

// Limits in bytes of what passes through a syncer to its OSCAR's own paths, and back.
const (
	MaxForwardBody   = 1 << 20
	MaxForwardAnswer = 4 << 20
	maxForwardValue  = 2 << 10
	maxForwardName   = 255
)

// On the stream, a request for one of OSCAR's own paths begins with ForwardAsUser when OSCAR is asked
// with the access token of a user (RelayUserTokenHeader), and with ForwardAsAdmin when it is asked
// with the cluster's own credentials, which a syncer allows only with --relay-admin.
const (
	ForwardAsUser  = "/user"
	ForwardAsAdmin = "/admin"
)

// ForwardRoute is one request to an OSCAR that a control plane passes on and a syncer lets through.
// What is not in ForwardRoutes is passed by neither.
type ForwardRoute struct {
	Method string
	// Path below /system; {name} stands for one name.
	Path string
	// Query names the parameters that are passed on.
	Query []string
	// Body says that the request has one, of JSON.
	Body bool
}

// ForwardRoutes are all of them.
func ForwardRoutes() []ForwardRoute {
	const get, post, put, del = http.MethodGet, http.MethodPost, http.MethodPut, http.MethodDelete
	return []ForwardRoute{
		BucketsRoute(),
		{Method: post, Path: "/buckets", Body: true},
		{Method: put, Path: "/buckets", Body: true},
		{Method: get, Path: "/buckets/{name}", Query: []string{"page"}},
		{Method: del, Path: "/buckets/{name}"},
		{Method: post, Path: "/buckets/{name}/presign", Body: true},
		VolumesRoute(),
		{Method: post, Path: "/volumes", Body: true},
		{Method: get, Path: "/volumes/{name}"},
		{Method: del, Path: "/volumes/{name}"},
		{Method: get, Path: "/quotas/user"},
		{Method: get, Path: "/quotas/user/{name}"},
		{Method: put, Path: "/quotas/user/{name}", Body: true},
		{Method: get, Path: "/metrics", Query: []string{"start", "end"}},
		{Method: get, Path: "/metrics/breakdown", Query: []string{"group_by", "include_users", "format", "start", "end"}},
		{Method: get, Path: ServiceMetricsPath, Query: []string{"metric", "start", "end"}},
	}
}

// ServiceMetricsPath is that of the usage of one service.
const ServiceMetricsPath = "/metrics/{name}"

// BucketsRoute and VolumesRoute are the lists that every cluster has a part of.
func BucketsRoute() ForwardRoute { return ForwardRoute{Method: http.MethodGet, Path: "/buckets"} }

// VolumesRoute lists volumes.
func VolumesRoute() ForwardRoute { return ForwardRoute{Method: http.MethodGet, Path: "/volumes"} }

// Named says whether the path has a name in it.
func (p ForwardRoute) Named() bool { return strings.Contains(p.Path, "{name}") }

// Segments are those of the path below /system, with the name in its place.
func (p ForwardRoute) Segments(name string) []string {
	out := strings.Split(strings.TrimPrefix(p.Path, "/"), "/")
	for i, segment := range out {
		if segment == "{name}" {
			out[i] = name
		}
	}
	return out
}

// Allowed are the parameters of a query that are passed on: each once, and none that is long or
// not printable.
func (p ForwardRoute) Allowed(query url.Values) url.Values {
	out := url.Values{}
	for _, key := range p.Query {
		if value := query.Get(key); value != "" && len(value) <= maxForwardValue && printable(value) {
			out.Set(key, value)
		}
	}
	return out
}

// ForwardName says whether a name may stand in a path: of a bucket, a volume, a service or a user. It
// leads to no other path.
func ForwardName(name string) bool {
	if name == "" || len(name) > maxForwardName || strings.Trim(name, ".") == "" {
		return false
	}
	return !strings.ContainsFunc(name, func(c rune) bool {
		return !strings.ContainsRune("-_.@:", c) && (c < '0' || c > '9') && (c < 'a' || c > 'z') && (c < 'A' || c > 'Z')
	})
}

// JobName says whether text can be the name of a Job: a DNS subdomain (RFC 1123).
func JobName(text string) bool {
	if text == "" || len(text) > 253 || strings.Trim(text, "-.") != text {
		return false
	}
	return !strings.ContainsFunc(text, func(c rune) bool {
		return c != '-' && c != '.' && (c < '0' || c > '9') && (c < 'a' || c > 'z')
	})
}

// ForwardType is a media type of an answer of OSCAR as it is passed on: of what a page could
// execute there is none.
func ForwardType(of string) string {
	media, _, _ := strings.Cut(of, ";")
	switch media = strings.ToLower(strings.TrimSpace(media)); media {
	case "application/json", "text/csv":
		return media + "; charset=utf-8"
	}
	return "text/plain; charset=utf-8"
}

func printable(text string) bool {
	return !strings.ContainsFunc(text, func(c rune) bool { return c < ' ' || c > '~' })
}
