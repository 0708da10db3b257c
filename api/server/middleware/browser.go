package middleware

import (
	"log/slog"
	"net/http"
	"strings"

	"github.com/go-chi/cors"

	"github.com/oscarfed/oscarfed/api/server/respond"
	"github.com/oscarfed/oscarfed/controlplane/fault"
)

// A browser sends the password that it remembers with whatever a page makes it send, also with
// requests of a foreign page. This file keeps foreign pages apart from ours.

// notAPage says of every answer that it is no page of this origin. A function or a cluster
// chooses the content of some answers, and a browser would run a script in them with all
// that its user may do here.
func notAPage(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Content-Security-Policy", "sandbox; default-src 'none'; frame-ancestors 'none'")
		// Nor is an answer a script or a picture in a foreign page.
		h.Set("Cross-Origin-Resource-Policy", "same-origin")
		next.ServeHTTP(w, r)
	})
}

// foreignPages refuses what the pages of other origins send, but for those in origins.
// Clients that are no browsers say neither Origin nor Sec-Fetch-Site.
func foreignPages(log *slog.Logger, origins []string) func(http.Handler) http.Handler {
	protection := http.NewCrossOriginProtection()
	trusted := originsOf(origins)
	return around(func(next http.Handler, w http.ResponseWriter, r *http.Request) {
		if err := protection.Check(r); err != nil && !trusted.send(r) {
			respond.Fail(log, w, r, respond.Errorf(fault.CodeForbidden,
				"the page of another origin sends this, and --cors-origins of the control plane does not name it"))
			return
		}
		next.ServeHTTP(w, r)
	})
}

// trustedOrigins are those of --cors-origins.
type trustedOrigins struct {
	// any is for *.
	any bool
	// patterns are in lower case, each with one * at most, as go-chi/cors takes them.
	patterns []string
}

func originsOf(origins []string) trustedOrigins {
	var t trustedOrigins
	for _, o := range origins {
		if o == "*" {
			t.any = true
			continue
		}
		t.patterns = append(t.patterns, strings.ToLower(o))
	}
	return t
}

// send says whether the page that sends a request is trusted with it. That any page may
// call does not mean that it may use the password that the browser remembers: it may send
// what a script must ask for. For that a browser asks first, and is told that remembered
// credentials are not to be sent along; of a new browser Sec-Fetch-Mode says that it has.
func (t trustedOrigins) send(r *http.Request) bool {
	origin := strings.ToLower(r.Header.Get("Origin"))
	for _, p := range t.patterns {
		prefix, suffix, wild := strings.Cut(p, "*")
		if origin == p || wild && len(origin) >= len(prefix)+len(suffix) && strings.HasPrefix(origin, prefix) && strings.HasSuffix(origin, suffix) {
			return true
		}
	}
	mode := r.Header.Get("Sec-Fetch-Mode")
	return t.any && (r.Method != http.MethodPost || (mode == "" || mode == "cors") && r.Header.Get("Content-Type") != "" && formType(r) == "")
}

// RefuseForms refuses the types that a form or a link can send, on the paths that are our own: they
// take JSON. OSCAR's paths take any type, as its clients need.
func RefuseForms(log *slog.Logger) func(http.Handler) http.Handler {
	return around(func(next http.Handler, w http.ResponseWriter, r *http.Request) {
		if form := formType(r); form != "" && !safeMethod(r.Method) {
			respond.Fail(log, w, r, respond.Errorf(fault.CodeUnsupportedType, "a body of type %s is not read here; send it with Content-Type: application/json", form))
			return
		}
		next.ServeHTTP(w, r)
	})
}

func safeMethod(method string) bool {
	return method == http.MethodGet || method == http.MethodHead || method == http.MethodOptions
}

// formType is the type of a body when a form, a script without asking first, or a link (<a ping>) can
// send it; empty for every other one.
func formType(r *http.Request) string {
	for _, value := range r.Header.Values("Content-Type") {
		essence, _, _ := strings.Cut(value, ";")
		switch essence = strings.ToLower(strings.TrimSpace(essence)); essence {
		case "application/x-www-form-urlencoded", "multipart/form-data", "text/plain", "text/ping":
			return essence
		}
	}
	return ""
}

// crossOrigin lets pages of the given origins call, with the API's own headers. A preflight carries no
// credentials and is answered before authentication. Cookies are never allowed:
// credentials travel in the Authorization header, which a page sets itself.
func crossOrigin(origins, sent, answered []string) func(http.Handler) http.Handler {
	return cors.Handler(cors.Options{
		AllowedOrigins: origins,
		AllowedMethods: []string{
			http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodDelete, http.MethodOptions,
		},
		AllowedHeaders: append([]string{"Authorization", "Content-Type", "Accept", "X-Requested-With", "Prefer", RequestIDHeader}, sent...),
		ExposedHeaders: append([]string{"Location", "ETag", "Retry-After", "Preference-Applied", "WWW-Authenticate", RequestIDHeader}, answered...),
		MaxAge:         600,
	})
}
