package oscarsim

import (
	"context"
	"crypto/sha1" //nolint:gosec // OSCAR's own names of namespaces, which protect nothing
	"encoding/hex"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"

	"github.com/oscarfed/oscarfed/internal/oscarsim/wire"
)

// User is the user that a bearer token is of, as the issuer tells it.
type User struct {
	Subject string
	// Name is shown in labels and tags.
	Name   string
	Groups []string
}

// UserSource tells the user of a bearer token: it stands for the issuers that an OSCAR is
// configured with, and checks signature, issuer and expiry. An error is a token that is not
// accepted.
type UserSource func(ctx context.Context, token string) (User, error)

// bearerOf is the token of a request that OSCAR takes for a user's: it looks for this prefix, letter by letter.
func bearerOf(header http.Header) (string, bool) {
	return strings.CutPrefix(header.Get("Authorization"), "Bearer ")
}

// identify authenticates the caller, and answers the requests of callers that are not let in. A
// user's first call prepares his namespace and MinIO user.
func (s *Sim) identify(ctx context.Context, c *call, r *http.Request) bool {
	token, isBearer := bearerOf(r.Header)
	if !isBearer || s.cfg.Users == nil {
		if !s.admin(r) {
			c.deny()
			return false
		}
		return true
	}
	if strings.Count(token, ".") != 2 {
		c.text(http.StatusBadRequest, "token is malformed: token contains an invalid number of segments")
		return false
	}
	user, err := s.cfg.Users(ctx, token)
	s.mu.Lock()
	defer s.mu.Unlock()
	if err != nil || s.denied[user.Subject] || !slices.ContainsFunc(user.Groups, func(g string) bool { return slices.Contains(s.cfg.Groups, g) }) {
		c.code(http.StatusUnauthorized)
		return false
	}
	c.user = &user
	s.kube.namespaces[s.userNamespace(user.Subject)] = true
	s.minio.users[user.Subject] = true
	return true
}

// Deny takes a user out of the groups that OSCAR lets in, or back into them.
func (s *Sim) Deny(subject string, denied bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.denied[subject] = denied
}

// by is the caller, as the journal has it.
func (c *call) by() string {
	if c.user != nil {
		return c.user.Subject
	}
	return wire.AdminOwner
}

// ownerName is the caller's name in labels and tags.
func (c *call) ownerName() string {
	if c.user != nil {
		return strings.ReplaceAll(c.user.Name, " ", "_")
	}
	return "oscar"
}

// mayRead is OSCAR's visibility. The administrator sees everything.
func (c *call) mayRead(svc *wire.Service) bool {
	if c.user == nil {
		return true
	}
	switch svc.Visibility {
	case "public":
		return true
	case "private":
		return svc.Owner == c.user.Subject
	case "restricted":
		return svc.Owner == c.user.Subject || slices.Contains(svc.AllowedUsers, c.user.Subject)
	}
	return false
}

// mayWrite: owner or administrator.
func (c *call) mayWrite(svc *wire.Service) bool { return c.user == nil || svc.Owner == c.user.Subject }

// forbidden words a refusal as OSCAR does.
func (c *call) forbidden(verb string) {
	c.text(http.StatusForbidden, fmt.Sprintf("User %s doesn't have permision to %s this service", c.user.Subject, verb))
}

// own makes the caller the owner of a new service, in his namespace and one of his groups. It
// reports whether it could.
func (s *Sim) own(c *call, svc *wire.Service) bool {
	svc.Owner = wire.AdminOwner
	if c.user == nil {
		return true
	}
	svc.Owner = c.user.Subject
	if svc.Namespace == "" {
		svc.Namespace = s.userNamespace(c.user.Subject)
	}
	if svc.VO == "" {
		for _, group := range s.cfg.Groups {
			if slices.Contains(c.user.Groups, group) {
				svc.VO = group
				break
			}
		}
	}
	if svc.VO == "" || slices.Contains(s.cfg.Groups, svc.VO) && !slices.Contains(c.user.Groups, svc.VO) {
		c.text(http.StatusBadRequest, fmt.Sprintln("service must be part of one of the following VO: ", s.cfg.Groups))
		return false
	}
	if slices.Contains(s.cfg.Groups, svc.VO) {
		svc.Labels["vo"] = strings.NewReplacer("/", "--", " ", "__", ":", "___").Replace(strings.Replace(svc.VO, "/", "", 1))
	}
	if isolated(svc) && !isolate(svc, c.user.Subject) {
		c.code(http.StatusInternalServerError)
		return false
	}
	return true
}

// maxNamespace is the length of a user's namespace.
const maxNamespace = 18

// userNamespace is the namespace of a user's services: the head of his subject, so that users whose subjects begin
// alike share one.
func (s *Sim) userNamespace(subject string) string {
	n := regexp.MustCompile(`[^a-z0-9-]+`).ReplaceAllString(strings.ToLower(subject), "-")
	n = strings.Trim(n, "-")
	most := max(maxNamespace-len(s.cfg.ServicesNamespace)-1, 1)
	n = strings.Trim(n[:min(len(n), most)], "-")
	if len(n) < most {
		sum := sha1.Sum([]byte(subject)) //nolint:gosec // as above
		n = strings.Trim((n + "-" + hex.EncodeToString(sum[:]))[:most], "-")
	}
	return s.cfg.ServicesNamespace + "-" + n
}
