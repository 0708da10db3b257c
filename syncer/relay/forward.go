package relay

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"

	v1 "github.com/oscarfed/oscarfed/api/v1"
)

// OSCAR's own paths for users (v1.ForwardRoutes): OSCAR is asked with the user's access token and no
// other credentials, after it has said that it lets the user in. With --relay-admin the same paths
// are served with the cluster's credentials. Bodies and answers are read whole, so that nothing of
// one that is too long reaches OSCAR or the control plane.

// forwardRoutes registers the handlers.
func (h *handler) forwardRoutes(mux *http.ServeMux) {
	for _, route := range v1.ForwardRoutes() {
		mux.Handle(route.Method+" "+v1.ForwardAsUser+route.Path, h.forwarded(route, h.asUser))
		mux.Handle(route.Method+" "+v1.ForwardAsAdmin+route.Path, h.forwarded(route, h.asAdmin))
	}
}

// forwarded is the handler of one route. authorize gives the token that OSCAR is asked with, empty for
// the cluster's credentials; when it has answered itself, ok is false.
func (h *handler) forwarded(route v1.ForwardRoute, authorize func(w http.ResponseWriter, r *http.Request) (token string, ok bool)) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != route.Method { // a pattern of GET matches HEAD
			h.refuse(w, whatForward, notForwarded("the syncer of this cluster passes no HEAD on"))
			return
		}
		give, no := takeSlot(h.asks, r)
		if no != nil {
			h.refuse(w, whatForward, no)
			return
		}
		defer give()
		ctx, cancel := context.WithTimeout(r.Context(), h.limits.Ask)
		defer cancel()
		r = r.WithContext(ctx)
		out, no := outgoing(route, r)
		if no != nil {
			h.refuse(w, whatForward, no)
			return
		}
		token, ok := authorize(w, r)
		if !ok {
			return
		}
		out.Token = token
		h.forwardAnswer(w, r, out)
	})
}

// whatForward is what these requests are counted as.
const whatForward = "forward"

func notForwarded(text string) *refusal {
	return &refusal{http.StatusForbidden, v1.RelayNotAllowed, text}
}

// outgoing is what OSCAR is asked: of the request only what the route allows.
func outgoing(route v1.ForwardRoute, r *http.Request) (Outgoing, *refusal) {
	name := r.PathValue("name")
	if route.Named() && !v1.ForwardName(name) {
		return Outgoing{}, notForwarded("this can be no name of a bucket, a volume, a service or a user")
	}
	query, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return Outgoing{}, notForwarded("the query is not valid")
	}
	out := Outgoing{Method: route.Method, Path: append([]string{"system"}, route.Segments(name)...), Query: route.Allowed(query)}
	if !route.Body {
		return out, nil
	}
	body, err := io.ReadAll(http.MaxBytesReader(nil, r.Body, v1.MaxForwardBody))
	switch {
	case isTooLarge(err):
		return out, tooLarge(v1.MaxForwardBody)
	case err != nil:
		return out, notForwarded("the body broke off")
	}
	out.Body, out.Length = bytes.NewReader(body), int64(len(body))
	out.Header = http.Header{"Content-Type": {"application/json"}}
	return out, nil
}

// asUser gives the user's token, if OSCAR lets him in. OSCAR v4.1 carries some requests out although
// it has refused the token, so it is asked first for what every user may read.
func (h *handler) asUser(w http.ResponseWriter, r *http.Request) (string, bool) {
	token := r.Header.Get(v1.RelayUserTokenHeader)
	if !printable(token, maxUserToken) || subjectOf(token) == "" {
		h.refuse(w, whatForward, notForwarded("this is asked for with a user's access token alone"))
		return "", false
	}
	resp, err := h.site.Send(r.Context(), Outgoing{Method: http.MethodGet, Path: []string{"system", "info"}, Token: token})
	if err != nil {
		h.refuse(w, whatForward, oscarAway())
		return "", false
	}
	defer resp.Body.Close()
	switch resp.StatusCode {
	case http.StatusOK:
		return token, true
	case http.StatusBadRequest, http.StatusUnauthorized, http.StatusForbidden:
		h.counted(whatForward, "passed")
		w.WriteHeader(http.StatusUnauthorized) // without OSCAR's text, which may go on with what was not asked
		return "", false
	}
	h.refuse(w, whatForward, &refusal{http.StatusServiceUnavailable, v1.RelayAway,
		fmt.Sprintf("the cluster's OSCAR cannot say whether it lets the user in (status %d)", resp.StatusCode)})
	return "", false
}

// asAdmin lets a request go with the cluster's own credentials, where the operator allows it.
func (h *handler) asAdmin(w http.ResponseWriter, _ *http.Request) (string, bool) {
	if !h.limits.Admin {
		h.refuse(w, whatForward, notForwarded("its syncer passes nothing on with the rights of OSCAR's administrator (it runs without --relay-admin)"))
		return "", false
	}
	return "", true
}

func oscarAway() *refusal {
	return &refusal{http.StatusServiceUnavailable, v1.RelayAway, "the cluster's OSCAR does not answer its syncer"}
}

// forwardAnswer asks OSCAR and gives its answer: status, media type and body, and no other header.
func (h *handler) forwardAnswer(w http.ResponseWriter, r *http.Request, out Outgoing) {
	resp, err := h.site.Send(r.Context(), out)
	switch {
	case errors.Is(err, ErrNotSent):
		h.refuse(w, whatForward, oscarAway())
		return
	case err != nil:
		h.refuse(w, whatForward, brokenOff("the cluster's OSCAR was asked and has not answered"))
		return
	}
	defer resp.Body.Close()
	if resp.StatusCode < http.StatusOK || resp.StatusCode >= 300 && resp.StatusCode < 400 {
		h.refuse(w, whatForward, brokenOff(fmt.Sprintf("the cluster's OSCAR answers with status %d, which is not passed on", resp.StatusCode)))
		return
	}
	body, err := io.ReadAll(io.LimitReader(resp.Body, v1.MaxForwardAnswer+1))
	switch {
	case err != nil:
		h.refuse(w, whatForward, brokenOff("the answer of the cluster's OSCAR broke off"))
		return
	case len(body) > v1.MaxForwardAnswer:
		h.refuse(w, whatForward, brokenOff(fmt.Sprintf("the answer of the cluster's OSCAR is larger than %d bytes", v1.MaxForwardAnswer)))
		return
	}
	h.counted(whatForward, "passed")
	if resp.StatusCode == http.StatusUnauthorized {
		body = nil
	}
	w.Header().Set("Content-Type", v1.ForwardType(resp.Header.Get("Content-Type")))
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(resp.StatusCode)
	_, _ = w.Write(body) // the caller asks again after a broken answer
}

func brokenOff(text string) *refusal {
	return &refusal{http.StatusGatewayTimeout, v1.RelayBroken, text}
}
