package server

import (
	"net/http"

	"github.com/google/uuid"
)

// RequestIDHeader carries the id of a request in both directions.
const RequestIDHeader = "X-Request-ID"

// maxRequestID in bytes: the id is written into records.
const maxRequestID = 64

// requestID gives every request an id and answers with it. A caller may choose
// it, to follow a request through several systems. What the control plane
// writes into its records must be unique, though: it recognises its own write
// by it when an answer of the store was lost. So a chosen id gets a tail there.
func (s *Server) requestID(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		made, err := uuid.NewV7()
		if err != nil { // the system has no randomness
			s.log.ErrorContext(r.Context(), "no request id", "error", err)
			writeText(w, http.StatusInternalServerError, internalMessage)
			return
		}
		st := &state{id: made.String(), writeID: made.String(), noun: "request"}
		if given := r.Header.Get(RequestIDHeader); saneID(given) {
			st.id, st.writeID = given, given+"."+st.writeID
		}
		w.Header().Set(RequestIDHeader, st.id)
		next.ServeHTTP(w, withState(r, st))
	})
}

// saneID says whether an id of a caller can go into headers, logs and records.
func saneID(id string) bool {
	if id == "" || len(id) > maxRequestID {
		return false
	}
	for _, c := range []byte(id) {
		switch {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9', c == '-', c == '_', c == '.':
		default:
			return false
		}
	}
	return true
}
