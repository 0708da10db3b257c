package oscar

import (
	"slices"
	"strings"
)

// ShortSubject is how OSCAR calls a user where a whole subject does not do: a user of EGI,
// whose subject has an @ behind a small letter or a digit, by what stands before it, any
// other one by his subject.
func ShortSubject(subject string) string {
	for i := 1; i < len(subject); i++ {
		before := subject[i-1]
		if subject[i] == '@' && (before >= '0' && before <= '9' || before >= 'a' && before <= 'z') {
			return subject[:i]
		}
	}
	return subject
}

// StartedByOwner says whether OSCAR v4.1 starts a job of a service for an access token of
// its owner. It looks for the service under the short form of the token's subject, and
// owners are kept whole: a private service of a user with an @ is not found by himself.
func StartedByOwner(s *Service, owner string) bool {
	short := ShortSubject(owner)
	switch s.Visibility {
	case VisibilityPublic:
		return true
	case VisibilityRestricted:
		return short == owner || slices.ContainsFunc(s.AllowedUsers, func(user string) bool { return strings.TrimSpace(user) == short })
	}
	return short == owner
}
