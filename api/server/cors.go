package server

import (
	"net/http"

	"github.com/go-chi/cors"
)

// crossOrigin lets pages of the given origins call. A preflight carries no
// credentials and is answered before authentication. Cookies are never allowed:
// credentials travel in the Authorization header, which a page sets itself.
func crossOrigin(origins []string) func(http.Handler) http.Handler {
	return cors.Handler(cors.Options{
		AllowedOrigins: origins,
		AllowedMethods: []string{
			http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodDelete, http.MethodOptions,
		},
		AllowedHeaders: []string{
			"Authorization", "Content-Type", "Accept", "X-Requested-With", ifMatchHeader, "Prefer", lastEventIDHeader,
			idempotencyHeader, planHeader, RequestIDHeader,
		},
		ExposedHeaders: []string{
			"Location", "ETag", "Retry-After", "Preference-Applied", pendingHeader, replayedHeader, RequestIDHeader,
		},
		MaxAge: 600,
	})
}
