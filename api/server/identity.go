package server

import (
	"net/http"

	"github.com/oscarfed/oscarfed/api/server/respond"
	v1 "github.com/oscarfed/oscarfed/api/v1"
	"github.com/oscarfed/oscarfed/controlplane/identity"
)

// loginCache is how long the answer about logging in may be kept: it changes when the control
// plane is started with other flags.
const loginCache = "public, max-age=300"

// getLogin answers GET /system/login: at which issuers, and as which client, people log in. A
// caller who is not logged in yet needs it, so it needs no credentials.
func (s *Server) getLogin(w http.ResponseWriter, _ *http.Request) error {
	w.Header().Set("Cache-Control", loginCache)
	return respond.JSON(w, http.StatusOK, v1.Login{Issuers: append([]v1.LoginIssuer{}, s.cfg.LoginIssuers...)})
}

// getWhoAmI answers GET /system/whoami.
func (s *Server) getWhoAmI(w http.ResponseWriter, r *http.Request) error {
	return respond.JSON(w, http.StatusOK, whoAmI(respond.StateOf(r).Caller))
}

func whoAmI(caller identity.Caller) v1.WhoAmI {
	out := v1.WhoAmI{
		Subject: caller.Subject, Name: caller.Name(), Administrator: caller.Administrator, Owner: caller.Subject,
		Issuer: caller.Issuer(), ClientID: caller.ClientID(), Groups: append([]string{}, caller.Groups()...),
		Rights: []string{v1.RightOwn, v1.RightStorage},
	}
	if caller.Administrator {
		out.Rights = []string{v1.RightOwn, v1.RightAll, v1.RightClusters}
	}
	if _, expiry := caller.Token(); !expiry.IsZero() {
		out.TokenExpiresAt = new(v1.Time{Time: expiry})
	}
	return out
}
