package server

import (
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-chi/chi/v5"

	"github.com/oscarfed/oscarfed/api/oscar"
	"github.com/oscarfed/oscarfed/api/server/respond"
	v1 "github.com/oscarfed/oscarfed/api/v1"
	"github.com/oscarfed/oscarfed/controlplane/fault"
	"github.com/oscarfed/oscarfed/controlplane/request"
)

// Headers of answers.
const (
	// replayedHeader is true when an earlier request with the same key had this outcome.
	replayedHeader = "Idempotent-Replayed"
	// pendingHeader counts replicas whose tombstone is not acknowledged yet.
	pendingHeader = "Oscarfed-Pending"
	// warningHeader tells of what was passed over.
	warningHeader = "Warning"
)

// maxIdempotencyKey in bytes.
const maxIdempotencyKey = 255

// params collects the violations of a request's parameters, so that one answer
// names them all.
type params struct {
	r          *http.Request
	query      url.Values
	violations []oscar.Violation
}

func paramsOf(r *http.Request) *params {
	return &params{r: r, query: r.URL.Query()}
}

// err is nil when no parameter broke a rule.
func (p *params) err() error {
	if len(p.violations) == 0 {
		return nil
	}
	return fault.Invalid(oscar.LimitViolations(p.violations)...)
}

func (p *params) violate(path, rule string, value any, message string) {
	p.violations = append(p.violations, oscar.Violation{Path: path, Rule: rule, Value: value, Message: message})
}

// oneOf reads a parameter that may be absent (empty) or one of the words.
func (p *params) oneOf(name string, words ...string) string {
	v := p.query.Get(name)
	if v == "" || slices.Contains(words, v) {
		return v
	}
	p.violate("?"+name, oscar.RuleOneOf, v, strconv.Quote(v)+" is unknown; use "+strings.Join(words, " or "))
	return ""
}

// anyOf gives all values of a parameter, which must be among words.
func (p *params) anyOf(name string, words []string) []string {
	all := p.query[name]
	for _, v := range all {
		if !slices.Contains(words, v) {
			v = respond.Cut(v, 40)
			p.violate("?"+name, oscar.RuleOneOf, v, strconv.Quote(v)+" is unknown; use one of "+strings.Join(words, ", "))
		}
	}
	return all
}

// yes reads a parameter that is true or false; absent means false.
func (p *params) yes(name string) bool { return p.oneOf(name, "true", "false") == "true" }

// time reads a parameter of RFC 3339; absent is the zero time.
func (p *params) time(name string) time.Time {
	v := p.query.Get(name)
	if v == "" {
		return time.Time{}
	}
	at, err := time.Parse(time.RFC3339, v)
	if err != nil {
		v = respond.Cut(v, 40)
		p.violate("?"+name, oscar.RuleType, v, strconv.Quote(v)+" is no time; use for example 2026-01-31T16:00:00Z, and %2B for a plus sign")
	}
	return at
}

// wait reads ?wait=; absent gives fallback.
func (p *params) wait(fallback time.Duration) time.Duration {
	d, given, err := waitOf(p.r)
	switch {
	case err != nil:
		p.violate("?wait", oscar.RuleQuantity, p.query.Get("wait"), err.Error())
	case given:
		return d
	}
	return fallback
}

// idempotencyKey reads the header: 1 to 255 printable ASCII characters.
func (p *params) idempotencyKey() string {
	values, given := p.r.Header[http.CanonicalHeaderKey(v1.IdempotencyHeader)]
	if !given {
		return ""
	}
	if len(values) != 1 {
		p.violate(v1.IdempotencyHeader, oscar.RuleUnique, nil, "the header is given more than once")
		return ""
	}
	key := values[0]
	switch {
	case key == "":
		p.violate(v1.IdempotencyHeader, oscar.RuleRequired, key, "the key is empty; give 1 to 255 printable characters, or no header")
	case len(key) > maxIdempotencyKey:
		p.violate(v1.IdempotencyHeader, oscar.RuleMaxLength, len(key), "the key is longer than 255 characters")
	case strings.ContainsFunc(key, func(c rune) bool { return c < ' ' || c > '~' }):
		p.violate(v1.IdempotencyHeader, oscar.RuleType, nil, "the key has characters that are not printable ASCII")
	default:
		return key
	}
	return ""
}

// repeat is how a change is told again: by its key, and by all that decides what it
// does. How long the caller waits, and what he likes to be answered, do not.
func (p *params) repeat(body []byte) request.Repeat {
	key := p.idempotencyKey()
	if key == "" {
		return request.Repeat{}
	}
	query := p.r.URL.Query()
	query.Del("wait")
	return request.Repeat{
		Key: key, Method: p.r.Method, Path: p.r.URL.Path,
		Body: query.Encode() + "\n" + string(body),
	}
}

type waitError string

func (e waitError) Error() string { return string(e) }

// waitOf parses ?wait=: a duration such as 30s or 1m30s, or a number of
// seconds, from 0 to MaxWait.
func waitOf(r *http.Request) (d time.Duration, given bool, err error) {
	if !strings.Contains(r.URL.RawQuery, "wait") {
		return 0, false, nil
	}
	v := r.URL.Query().Get("wait")
	if v == "" {
		return 0, false, nil
	}
	d, err = time.ParseDuration(v)
	if err != nil {
		d, err = time.ParseDuration(v + "s")
	}
	switch {
	case err != nil:
		return 0, true, waitError(strconv.Quote(respond.Cut(v, 40)) + " is no duration; use for example 30s")
	case d < 0 || d > MaxWait:
		return 0, true, waitError(strconv.Quote(respond.Cut(v, 40)) + " is out of range; wait from 0s to " + MaxWait.String())
	}
	return d, true, nil
}

// preferences are what RFC 7240 calls so; unknown ones are ignored.
type preferences struct{ async, representation bool }

func preferencesOf(r *http.Request) preferences {
	var p preferences
	for _, line := range r.Header.Values("Prefer") {
		for one := range strings.SplitSeq(line, ",") {
			token, _, _ := strings.Cut(one, ";")
			name, value, _ := strings.Cut(strings.TrimSpace(token), "=")
			switch strings.ToLower(strings.TrimSpace(name)) {
			case "respond-async":
				p.async = true
			case "return":
				p.representation = strings.EqualFold(strings.Trim(strings.TrimSpace(value), `"`), "representation")
			}
		}
	}
	return p
}

// pathParam is a part of the path, decoded.
func pathParam(r *http.Request, name string) string {
	raw := chi.URLParam(r, name)
	if r.URL.RawPath == "" {
		return raw // chi routed the decoded path
	}
	if v, err := url.PathUnescape(raw); err == nil {
		return v
	}
	return raw
}

// ifMatch reads the revision that a change is bound to: "<revision>" in quotes,
// also as a weak tag, since proxies make weak ones of ours. 0 binds to none: the
// header is absent, or it is *, which everything that exists matches. A tag that
// no federation can have is a conflict, and never taken for no tag.
func (p *params) ifMatch() (int64, error) {
	values := p.r.Header.Values(respond.IfMatch)
	if len(values) == 0 {
		return 0, nil
	}
	if len(values) > 1 || strings.Contains(values[0], ",") {
		p.violate(respond.IfMatch, oscar.RuleUnique, nil, "several entity tags are given; a change is bound to one")
		return 0, nil
	}
	v := strings.TrimSpace(values[0])
	if v == "*" {
		return 0, nil
	}
	tag := strings.TrimPrefix(v, "W/")
	if len(tag) < 2 || tag[0] != '"' || tag[len(tag)-1] != '"' {
		p.violate(respond.IfMatch, oscar.RuleType, nil, `it is no entity tag; send the ETag of an answer as it is, for example "4711" with the quotes, or *`)
		return 0, nil
	}
	revision, err := strconv.ParseInt(tag[1:len(tag)-1], 10, 64)
	if err != nil || revision <= 0 || etag(revision) != tag {
		return 0, respond.Errorf(fault.CodeConflict, "no revision of a federation has the entity tag %s; GET it again and decide anew", respond.Cut(v, 40))
	}
	return revision, nil
}

// unbound refuses a change that its caller has bound to a revision, on a route that does not look at it: it would be done
// to another state than the one that he has seen.
func (s *Server) unbound(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if tags := r.Header.Values(respond.IfMatch); len(tags) > 0 && strings.TrimSpace(strings.Join(tags, ",")) != "*" {
			s.fail(w, r, fault.Invalid(oscar.Violation{
				Path: respond.IfMatch, Rule: oscar.RuleOneOf, Message: "this change cannot be bound to a revision; send it without the header",
			}))
			return
		}
		next.ServeHTTP(w, r)
	})
}
