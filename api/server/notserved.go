package server

import (
	"net/http"
	"strings"

	"github.com/oscarfed/oscarfed/api/server/respond"
	"github.com/oscarfed/oscarfed/controlplane/fault"
)

// notFound answers an unknown path, and an unknown method of a known path, as OSCAR
// does. What an OSCAR has and a control plane has not is another matter: its clients hide
// the text of a 404, and their users would look for what they have lost.
func (s *Server) notFound(w http.ResponseWriter, r *http.Request) {
	why := notServed(r.Method, r.URL.Path)
	if why == "" {
		respond.Text(w, http.StatusNotFound, "404 page not found")
		return
	}
	respond.StateOf(r).OSCAR = true
	s.fail(w, r, &fault.Error{Code: fault.CodeNotServed, Message: why})
}

// notServed says of a request that an OSCAR Manager v4.1 answers, and this API does not,
// where to go with it; of every other one nothing. It needs no credentials: it tells
// nothing but what this program cannot do.
func notServed(method, path string) string {
	switch method {
	case http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodDelete:
	default:
		return ""
	}
	path, ok := strings.CutPrefix(path, "/system/")
	if !ok {
		return ""
	}
	first, rest, _ := strings.Cut(strings.TrimSuffix(path, "/"), "/")
	const ask = "; ask the OSCAR of the cluster itself"
	switch first {
	case "config":
		if rest == "" && method == http.MethodPut {
			return "Which images are allowed is said to each OSCAR" + ask
		}
	case "services":
		_, of, _ := strings.Cut(rest, "/")
		action, _, _ := strings.Cut(of, "/")
		if method == http.MethodGet && of == "auth" || action == "exposed" {
			return "An exposed service is reached, and its callers are let in, at the OSCAR of its cluster"
		}
	}
	return ""
}
